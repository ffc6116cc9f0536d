package place2017

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/gorilla/websocket"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// me is the answer to GET /api/me.json for somebody.
type me struct {
	Kind string `json:"kind"`
	Data meData `json:"data"`
}

type meData struct {
	Name    string `json:"name"`
	Modhash string `json:"modhash"`
}

// getMe answers GET /api/me.json; to nobody with an empty object, as in 2017.
func (f *Face) getMe(w http.ResponseWriter, r *http.Request) {
	user, _ := f.deps.Host.Visitor(r)
	if user == "" {
		writeJSON(w, http.StatusOK, struct{}{})
		return
	}
	writeJSON(w, http.StatusOK, me{Kind: "t2", Data: meData{Name: string(user), Modhash: f.Modhash(user)}})
}

// login is what a sign-in answers with.
type login struct {
	Modhash string `json:"modhash"`
	Cookie  string `json:"cookie"`
}

// SignIn returns what a sign-in is answered with: the user's modhash and the value of the cookie, or why the name was refused.
func (f *Face) SignIn(user board.UserID, cookie, refused string) any {
	if refused != "" {
		return bodyOf(nil, fieldError{"BAD_USERNAME", refused, "user"}).JSON
	}
	return bodyOf(login{Modhash: f.Modhash(user), Cookie: cookie}).JSON
}

// pageConfig is what the page tells the programs that run in it or read it.
type pageConfig struct {
	WebsocketURL   string   `json:"place_websocket_url"`
	Width          int      `json:"place_canvas_width"`
	Height         int      `json:"place_canvas_height"`
	Cooldown       float64  `json:"place_cooldown"` // seconds
	Fullscreen     bool     `json:"place_fullscreen"`
	HideUI         bool     `json:"place_hide_ui"`
	WaitSeconds    *seconds `json:"place_wait_seconds,omitempty"` // only for somebody
	ActiveVisitors int      `json:"place_active_visitors"`
	Logged         any      `json:"logged"`  // the user's name, or false
	Modhash        any      `json:"modhash"` // or false
	CurrentOrigin  string   `json:"currentOrigin"`
}

// configStart and configEnd are around the page's configuration. Programs that read the page look for the first.
const configStart, configEnd = "r.setup(", ")"

// setup is the script that makes the page's configuration a call that works: the page itself does not use it.
const setup = "window.r=window.r||{config:{},setup:function(c){Object.assign(this.config,c)}};"

// getPlace answers GET /place: the websocket for who asks for an upgrade or names a signature, else the page.
func (f *Face) getPlace(w http.ResponseWriter, r *http.Request) {
	upgrade := websocket.IsWebSocketUpgrade(r)
	switch {
	case upgrade:
		f.listen(w, r)
	case hasFlag(r, "m"):
		f.fail(w, reasonPlain, http.StatusBadRequest, 0, "This address takes websocket connections only.")
	default:
		f.deps.Host.ServePage(w, r, func(user board.UserID) [][2]string {
			return [][2]string{{"", setup}, {"config", configStart + string(f.config(r, user)) + configEnd}}
		})
	}
}

// getSubreddit answers GET /r/place, where many programs look for the address of the websocket: with the configuration alone,
// which no script of a page reads. A browser goes on to the page.
func (f *Face) getSubreddit(w http.ResponseWriter, r *http.Request) {
	user, _ := f.deps.Host.Visitor(r)
	page := `<!doctype html><html><head><title>place</title><script id="config">` + configStart + string(f.config(r, user)) + configEnd +
		`</script><meta http-equiv="refresh" content="0; url=` + html.EscapeString(f.deps.Host.BasePath()) + `/place"></head><body></body></html>`
	h := w.Header()
	h.Set("Cache-Control", "private, no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(page)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		io.WriteString(w, page)
	}
}

// toPlace sends who asks for /place/ to /place, whose page finds its files from there.
func (f *Face) toPlace(w http.ResponseWriter, r *http.Request) {
	to := f.deps.Host.BasePath() + "/place"
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	http.Redirect(w, r, to, http.StatusMovedPermanently)
}

// config returns the page's configuration as JSON without what would end a script.
func (f *Face) config(r *http.Request, user board.UserID) []byte {
	s := f.deps.Board.Settings()
	c := pageConfig{
		WebsocketURL: f.websocketURL(r), Width: s.Width, Height: s.Height, Cooldown: plainSeconds(s.CooldownMs),
		Fullscreen: isOn(r, "webview"), HideUI: isOn(r, "hide_palette"), ActiveVisitors: f.visitors(), Logged: false, Modhash: false,
		CurrentOrigin: f.origin(r),
	}
	if user != "" {
		ctx, cancel := f.readContext(r)
		defer cancel()
		wait := seconds(0)
		if status, err := f.deps.Placer.UserStatus(ctx, user); err == nil { // else the page comes all the same, and draw tells
			wait = secondsOf(status.WaitMs)
		}
		c.WaitSeconds, c.Logged, c.Modhash = &wait, string(user), f.Modhash(user)
	}
	body, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("place2017: JSON of the page's configuration: %v", err)) // plain values only
	}
	return spaced(body)
}

// spaced puts a space behind every colon and comma between values: programs that look for the address with a regular expression
// know only that.
func spaced(body []byte) []byte {
	out := make([]byte, 0, len(body)+32)
	quoted := false
	for i, b := range body {
		out = append(out, b)
		switch {
		case b == '"' && (i == 0 || !escaped(body[:i])):
			quoted = !quoted
		case !quoted && (b == ':' || b == ','):
			out = append(out, ' ')
		}
	}
	return out
}

// escaped reports whether what follows before is escaped: behind an odd number of backslashes.
func escaped(before []byte) bool {
	return (len(before)-len(bytes.TrimRight(before, `\`)))%2 == 1
}

// isOn reads a flag of the page, which may say no.
func isOn(r *http.Request, name string) bool {
	switch r.URL.Query().Get(name) {
	case "", "0", "false", "False", "off", "no":
		return false
	}
	return true
}

// visitors counts the people of both faces.
func (f *Face) visitors() int { return f.deps.Board.Online() + f.hub.count() }

// websocketURL returns an address that is good for an hour. It has one parameter, because some programs cannot read "&" as JSON
// writes it here.
func (f *Face) websocketURL(r *http.Request) string {
	scheme := "ws://"
	if f.deps.Host.Secure(r) {
		scheme = "wss://"
	}
	return scheme + r.Host + f.deps.Host.BasePath() + "/place?m=" + f.signURL(time.Now())
}

// listen makes a request with a good signature a session.
func (f *Face) listen(w http.ResponseWriter, r *http.Request) {
	if f.deps.Host.Draining() {
		f.fail(w, board.CodeDraining.String(), http.StatusGone, 0, board.CodeDraining.Refusal().Sentence)
		return
	}
	if reason := f.checkURL(r.URL.Query().Get("m"), time.Now()); reason != "" {
		f.fail(w, reason, http.StatusForbidden, 0, forbidden)
		return
	}
	if _, ok := f.settings(w); !ok {
		return
	}
	f.deps.Host.Upgrade(w, r, f.hub.join, func(conn wire.Conn) { f.hub.leave(conn) })
}
