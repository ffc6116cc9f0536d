package transport

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"html"
	"mime"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/placed-board/placed/board"
)

// Face is a second way to speak to the node, beside /api/v1: that of 2017 (transport/place2017).
type Face interface {
	// Routes returns the face's handlers by pattern of http.ServeMux.
	Routes() map[string]http.HandlerFunc
	// WriteFailure answers with a status of 400 or above in the face's form; a wait of 0 is none.
	WriteFailure(w http.ResponseWriter, status int, wait time.Duration, message string)
	// SignIn returns what a sign-in is answered with in the face's form: the user and the cookie's value, or why it was refused.
	SignIn(user board.UserID, cookie, refused string) any
	// Refresh tells every page of the face to load itself anew.
	Refresh()
}

// Of the face of 2017.
const (
	prefix2017 = "/api/place/"
	cookie2017 = "reddit_session"
)

// proven2017 are the patterns whose requests carry a proof, modhash or bearer token, that no page of another site made them; so
// they may name any Origin, as programs of 2017 do.
var proven2017 = []string{"POST " + prefix2017 + "draw.json", "POST " + prefix2017 + "drawrect.json"}

// openFace builds the face of 2017, if there is one.
func (s *Server) openFace() error {
	if s.deps.Face == nil {
		return nil
	}
	var err error
	if s.face, err = s.deps.Face(&FaceHost{s}); err != nil {
		return fmt.Errorf("transport: face of 2017: %w", err)
	}
	for _, pattern := range proven2017 {
		s.cross.AddInsecureBypassPattern(pattern)
	}
	s.textCfg = textConfig(s.cfg)
	return nil
}

// FaceHost is the server as the face of 2017 sees it.
type FaceHost struct{ s *Server }

// refuse answers a refusal that comes before any route, in the form that whoever asks for the path reads.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, p *problem) {
	if s.face == nil || !strings.HasPrefix(r.URL.Path, prefix2017) {
		s.fail(w, p)
		return
	}
	s.failFace(w, p)
}

// failFace answers and counts a problem in the form of 2017.
func (s *Server) failFace(w http.ResponseWriter, p *problem) {
	s.metrics.refuse(p.Code)
	s.face.WriteFailure(w, p.Status, time.Duration(p.RetryAfterMs)*time.Millisecond, p.Title)
}

// Visitor tells who a request comes from, and whether it says so by a token of its own, which no page of another site can make a
// browser send. Whoever comes with a token that is not good is nobody.
func (h *FaceHost) Visitor(r *http.Request) (user board.UserID, bearer bool) {
	who, p := h.s.identify(r)
	if p != nil {
		return "", false
	}
	return who.user, who.by == byBearer
}

// Operator reports whether a request carries the operators' token, and who says to be acting; wait is above 0 when there were too
// many wrong ones. Wrong tokens are rationed as on the operators' own listener; a user's token is none.
func (h *FaceHost) Operator(r *http.Request) (by string, ok bool, wait time.Duration) {
	token, bearer := cutBearer(r.Header.Get("Authorization"))
	if !bearer {
		return "", false, 0
	}
	given, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(h.s.cfg.AdminToken))
	if h.s.cfg.AdminToken != "" && subtle.ConstantTimeCompare(given[:], want[:]) == 1 {
		h.s.metrics.adminCalls[adminOK].Inc()
		if by, _, p := whoAndWhy(r, "", ""); p == nil {
			return by, true, 0
		}
		return operatorDefault, true, 0
	}
	if user, _ := h.Visitor(r); user != "" {
		return "", false, 0
	}
	h.s.metrics.adminCalls[adminDenied].Inc()
	if wait, ok := h.s.limits.adminFailure(h.s.peerOf(r).addr, time.Now()); !ok {
		return "", false, wait
	}
	h.s.log.Warn("a request of the face of 2017 without the right operators' token", "address", h.s.peerOf(r).addr, "path", r.URL.Path)
	return "", false, 0
}

// Secure reports whether the client came by TLS, here or at a proxy that is believed: programs of 2017 are told addresses with
// a scheme, so a proxy on the same machine is believed without being named.
func (h *FaceHost) Secure(r *http.Request) bool {
	peer := h.s.peerOf(r)
	local := peer.carrier == nil && isLoopback(peer.addr) && strings.EqualFold(r.Header.Get(forwardedProto), "https")
	return r.TLS != nil || peer.https || local
}

func isLoopback(addr netip.Addr) bool { return addr.Unmap().IsLoopback() }

// AllowedOrigin reports whether pages of an origin may read what is here.
func (h *FaceHost) AllowedOrigin(r *http.Request, origin string) bool {
	return h.s.origins[origin] || sameHost(origin, r.Host)
}

// BasePath returns what stands before every path in the addresses that clients use, as "/board", or "".
func (h *FaceHost) BasePath() string { return h.s.cfg.BasePath }

// Draining reports whether the node is going down.
func (h *FaceHost) Draining() bool { return h.s.draining.Load() }

// ServePage answers with the page of "/" and inline scripts in its head, an id (or "") and a text each, which the policy lets run
// by their hashes. They are made for the visitor, who may have become somebody just now.
func (h *FaceHost) ServePage(w http.ResponseWriter, r *http.Request, scripts func(user board.UserID) [][2]string) {
	user, _ := h.Visitor(r)
	if h.s.wantsIdentity(r) && h.s.takeIdentity(r) == nil {
		h.s.metrics.signIns[signInAnon].Inc()
		user = h.s.issue(w, r, identity{user: newAnonymousUser(), anonymous: true}).User
	}
	head, sources := inlineScripts(scripts(user))
	body := insertScripts(h.s.page.index, head)
	header := w.Header()
	header.Set("Cache-Control", "private, no-store")
	header.Set("Content-Security-Policy", strings.Replace(h.s.policy, "script-src 'self'", "script-src 'self'"+sources, 1))
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Content-Type", mediaTypes[".html"])
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		w.Write(body)
	}
}

// inlineScripts returns the scripts as HTML, and their hashes as sources of a Content-Security-Policy.
func inlineScripts(scripts [][2]string) (head []byte, sources string) {
	for _, script := range scripts {
		id, text := script[0], script[1]
		if id != "" {
			id = ` id="` + html.EscapeString(id) + `"`
		}
		head = append(head, "<script"+id+">"+text+"</script>\n"...)
		sum := sha256.Sum256([]byte(text))
		sources += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return head, sources
}

// insertScripts returns the index with scripts at the beginning of its head. A node without a page shows its plain text.
func insertScripts(index *file, head []byte) []byte {
	mark := []byte("<head>")
	if at := bytes.Index(index.body, mark); at >= 0 {
		at += len(mark)
		return bytes.Join([][]byte{index.body[:at], head, index.body[at:]}, []byte("\n"))
	}
	return bytes.Join([][]byte{[]byte("<!doctype html>\n<head>"), head, []byte("</head>\n<pre>" + html.EscapeString(string(index.body)) + "</pre>")}, []byte("\n"))
}

// loggedIn is the answer to a sign-in whose body is no form of 2017: the words of both faces.
type loggedIn struct {
	signedIn
	JSON any `json:"json"`
}

// form2017 is the answer to one whose body is.
type form2017 struct {
	JSON any `json:"json"`
}

// isForm2017 reports whether a program of 2017 signs in.
func (s *Server) isForm2017(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return s.face != nil && err == nil && (kind == "application/x-www-form-urlencoded" || kind == "multipart/form-data")
}

// postLoginForm answers POST /api/login and /post/login, which name the user in a form of 2017.
func (s *Server) postLoginForm(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, placementBytesMax)
	r.SetPathValue("name", r.FormValue("user")) // of a body that is no form nothing is left, and no name is refused
	s.postLogin(w, r)
}

// answerLogin answers a sign-in by name: to the forms of 2017 in their words alone, else in those of both faces.
func (s *Server) answerLogin(w http.ResponseWriter, r *http.Request, in signedIn) {
	if s.face == nil {
		writeJSON(w, http.StatusOK, "no-store", in)
		return
	}
	cookie := s.cookie(r, in.Token, 0)
	cookie.Name = cookie2017
	http.SetCookie(w, cookie)
	answer := s.face.SignIn(in.User, in.Token, "")
	if s.isForm2017(r) {
		writeJSON(w, http.StatusOK, "no-store", form2017{answer})
		return
	}
	writeJSON(w, http.StatusOK, "no-store", loggedIn{in, answer})
}

// failLogin answers a sign-in that is refused, to the forms of 2017 as those expect it.
func (s *Server) failLogin(w http.ResponseWriter, r *http.Request, p *problem) {
	switch {
	case !s.isForm2017(r):
		s.fail(w, p)
	case p.RetryAfterMs > 0:
		s.failFace(w, p)
	default:
		s.metrics.refuse(p.Code)
		writeJSON(w, http.StatusOK, "no-store", form2017{s.face.SignIn("", "", p.Title)})
	}
}

// adminRefresh answers POST /admin/v1/refresh: every page of the face of 2017 is told to load itself anew.
func (s *Server) adminRefresh(w http.ResponseWriter, _ *http.Request) {
	if s.face != nil {
		s.face.Refresh()
	}
	w.WriteHeader(http.StatusNoContent)
}
