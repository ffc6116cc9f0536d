package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"image"
	"image/color"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	goqr "github.com/piglig/go-qr"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
)

// invited is a board on which everybody has an invite, on a store that outlives it.
func invited(t *testing.T, dir string) *serving {
	t.Helper()
	t.Setenv("PLACED_DATA_DIR", dir)
	s := serve(t, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--width", "100", "--height", "100", "--cooldown", "0s", "--auth", "invite")
	return s
}

// ask runs placed ctl and decodes its JSON.
func (s *serving) ask(out any, args ...string) {
	s.t.Helper()
	r := s.ctl(append([]string{"-o", "json"}, args...)...)
	if r.code != 0 {
		s.t.Fatalf("%v: code %d, %s", args, r.code, r.stderr)
	}
	if err := json.Unmarshal([]byte(r.stdout), out); err != nil {
		s.t.Fatalf("%v: %v: %s", args, err, r.stdout)
	}
}

func statusOf(err error) int {
	if p, ok := errors.AsType[*client.Problem](err); ok {
		return p.Status
	}
	return 0
}

// TestInvites lives through an evening: links are made and used on several devices, bad ones are refused, one guest is sent
// away in the middle of a session, and after a restart all is as it was.
func TestInvites(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := invited(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), serveWithin)
	defer cancel()
	var made []client.Invitation
	s.ask(&made, "invite", "create", "4", "--why", "evening")
	if len(made) != 4 || !strings.HasPrefix(made[0].Link, s.board+"/#invite=") || made[0].State != "open" {
		t.Fatalf("%+v", made)
	}
	play := func(link, name string) *client.Session {
		t.Helper()
		session, err := client.Dial(ctx, s.board, client.Options{Invite: link, Name: name, Whole: true, Mirror: true, Backoff: client.Backoff{Base: 1, Max: 1}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = session.Close() })
		return session
	}
	ann, phone := play(made[0].Link, "Ann"), play(made[0].Link, "")
	if ann.User() != "Ann" || phone.User() != "Ann" {
		t.Errorf("one link is %q and %q", ann.User(), phone.User())
	}
	if outcome, err := phone.Place(ctx, board.Point{X: 1, Y: 2}, 3); err != nil || outcome.Verdict == board.VerdictRefused {
		t.Errorf("%+v %v", outcome, err)
	}
	bob := play(made[1].Link, "Bob")
	bobs := bob.Token()

	api := &client.API{URL: s.board}
	for name, c := range map[string]struct {
		link, name string
		status     int
	}{
		"no name yet":      {made[2].Link, "", 422},
		"a taken name":     {made[2].Link, "ANN", 409},
		"a reserved name":  {made[2].Link, "anon-x", 422},
		"an empty code":    {"", "x", 403},
		"a changed code":   {made[2].Link[:len(made[2].Link)-1] + "~", "x", 403},
		"the id alone":     {made[2].ID, "x", 403},
		"one bit changed":  {flipped(made[2].Link), "x", 403},
		"code with a tail": {made[2].Link + "A", "x", 403},
	} {
		if _, err := api.UseInvite(ctx, c.link, c.name); statusOf(err) != c.status {
			t.Errorf("%s: %v, want %d", name, err, c.status)
		}
	}
	if _, err := api.Login(ctx, "Ann"); statusOf(err) != http.StatusForbidden {
		t.Errorf("by name alone: %v", err)
	}
	if _, err := api.Anonymous(ctx); statusOf(err) != http.StatusForbidden {
		t.Errorf("anonymous: %v", err)
	}

	if r := s.ctl("invite", "revoke", "bob", "--why", "spam"); r.code != 0 || !strings.Contains(r.stdout, "revoked") {
		t.Fatalf("%d %s %s", r.code, r.stdout, r.stderr)
	}
	await(t, "the session of one who is sent away to end", func() bool { return bob.State() == client.StateClosed })
	if _, err := api.UseInvite(ctx, made[1].Link, ""); statusOf(err) != http.StatusForbidden {
		t.Errorf("a link that was taken back: %v", err)
	}
	if _, err := client.Dial(ctx, s.board, client.Options{Token: bobs}); err == nil || !strings.Contains(err.Error(), "taken back") {
		t.Errorf("the token of one who was sent away: %v", err)
	}
	if r := s.ctl("invite", "revoke", made[3].Link); r.code != 0 || !strings.Contains(r.stdout, made[3].ID) {
		t.Errorf("by link: %d %s %s", r.code, r.stdout, r.stderr)
	}
	if r := s.ctl("invite", "revoke", "nobody"); r.code != 1 || !strings.Contains(r.stderr, "nobody") {
		t.Errorf("%d %s", r.code, r.stderr)
	}
	if ann.State() == client.StateClosed {
		t.Error("somebody else's session ended")
	}

	token := ann.Token()
	_, _ = ann.Close(), phone.Close()
	if code := s.stop(); code != 0 {
		t.Fatalf("code %d: %s", code, s.stderr.String())
	}
	s = invited(t, dir)
	var after []client.Invitation
	s.ask(&after, "invite", "list")
	if len(after) != 4 || after[0].Name != "Ann" || after[1].State != "revoked" || after[1].Link != "" || after[2].State != "open" {
		t.Errorf("after a restart: %+v", after)
	}
	again, err := client.Dial(ctx, s.board, client.Options{Token: token})
	if err != nil || again.User() != "Ann" {
		t.Fatalf("after a restart: %v", err)
	}
	_ = again.Close()
}

// flipped changes the last bit of a link's id.
func flipped(link string) string {
	at := strings.Index(link, "#invite=") + len("#invite=") + 3
	other := byte('A')
	if link[at] == 'A' {
		other = 'B'
	}
	return link[:at] + string(other) + link[at+1:]
}

// TestInvitesOnPaper prints links as CSV and as a page that asks nobody for anything; a scanner reads what is printed.
func TestInvitesOnPaper(t *testing.T) {
	dir := t.TempDir()
	s := invited(t, filepath.Join(dir, "data"))
	names, page, table := filepath.Join(dir, "names.txt"), filepath.Join(dir, "page.html"), filepath.Join(dir, "links.csv")
	if err := os.WriteFile(names, []byte("\ufeffAda\r\n\n  Zoë \n<b>Bob</b>\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := s.ctl("invite", "create", "--names-from", names, "--valid-for", "48h", "--html", page, "--csv", table, "--url", "https://board.example.org/"); r.code != 0 || r.stdout != "" {
		t.Fatalf("%d %s %s", r.code, r.stdout, r.stderr)
	}
	if r := s.ctl("invite", "create", "3", "--html", page); r.code != 2 || !strings.Contains(r.stderr, "--force") {
		t.Errorf("written over: %+v", r)
	}
	if r := s.ctl("invite", "create", "1", "--html", filepath.Join(dir, "other.html")); r.code != 0 {
		t.Errorf("another file: %+v", r)
	}
	content, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(content))).ReadAll()
	if err != nil || len(rows) != 4 || rows[1][1] != "Ada" || rows[2][1] != "Zoë" || rows[3][1] != "<b>Bob</b>" || rows[1][3] == "" {
		t.Fatalf("%q %v", rows, err)
	}
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(html), "<b>Bob</b>") || !strings.Contains(string(html), "Zoë") {
		t.Error("names are not escaped, or missing")
	}
	for _, word := range []string{"src=", "href=", "<script", "url(", "@import", "<link"} {
		if strings.Contains(string(html), word) {
			t.Errorf("the page asks somebody for something: %s", word)
		}
	}
	for _, path := range []string{page, table} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s may be read by others: %v %v", path, info.Mode(), err)
		}
	}
	codes := regexp.MustCompile(`<svg viewBox="0 0 (\d+) \d+".*?<path d="([^"]+)"`).FindAllStringSubmatch(string(html), -1)
	if len(codes) != 3 {
		t.Fatalf("%d codes", len(codes))
	}
	for i, code := range codes {
		link := rows[i+1][4]
		if !strings.HasPrefix(link, "https://board.example.org/#invite=") {
			t.Errorf("link %s", link)
		}
		if read, err := goqr.Decode(drawn(t, code[2])); err != nil || read != link {
			t.Errorf("a scanner reads %q, %v; the link is %s", read, err, link)
		}
	}
	if r := s.ctl("invite", "list", "--csv", table); r.code != 0 {
		t.Errorf("printing again: %s", r.stderr)
	}
}

// drawn paints a path of unit squares as a picture, ten pixels a module.
func drawn(t *testing.T, path string) image.Image {
	t.Helper()
	const scale, side = 10, 70
	picture := image.NewGray(image.Rect(0, 0, side*scale, side*scale))
	for i := range picture.Pix {
		picture.Pix[i] = 255
	}
	for _, m := range regexp.MustCompile(`M(\d+) (\d+)h1v1h-1z`).FindAllStringSubmatch(path, -1) {
		x, y := number(t, m[1]), number(t, m[2])
		for dy := range scale {
			for dx := range scale {
				picture.SetGray(x*scale+dx, y*scale+dy, color.Gray{})
			}
		}
	}
	return picture
}

func number(t *testing.T, text string) int {
	t.Helper()
	n := 0
	for _, r := range text {
		n = 10*n + int(r-'0')
	}
	return n
}

// TestInviteUsage: what cannot be is told in one line and makes nothing; a board without invites says so.
func TestInviteUsage(t *testing.T) {
	dir := t.TempDir()
	s := invited(t, filepath.Join(dir, "data"))
	empty, long := filepath.Join(dir, "empty"), filepath.Join(dir, "long")
	for path, content := range map[string]string{empty: "\n\n", long: strings.Repeat("x", 49)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"create"}, 2, "how many"},
		{[]string{"create", "0"}, 2, "how many"},
		{[]string{"create", "-5"}, 2, "-5"},
		{[]string{"create", "many"}, 2, "many"},
		{[]string{"create", "3", "--names-from", long}, 2, "not both"},
		{[]string{"create", "--names-from", empty}, 2, "no names"},
		{[]string{"create", "--names-from", long}, 2, "xxx"},
		{[]string{"create", "3", "--valid-for=-1h"}, 2, "future"},
		{[]string{"create", "3", "--url", "board.example.org"}, 2, "https://host"},
		{[]string{"create", "3", "--why", strings.Repeat("x", 301)}, 1, "why"},
		{[]string{"create", "3", "--csv", filepath.Join(dir, "no", "such")}, 2, "such"},
		{[]string{"revoke"}, 2, "invites"},
	} {
		if r := s.ctl(append([]string{"invite"}, c.args...)...); r.code != c.code || !strings.Contains(r.stderr, c.says) {
			t.Errorf("%v: code %d, %s", c.args, r.code, r.stderr)
		}
	}
	var made []client.Invitation
	if s.ask(&made, "invite", "list"); len(made) != 0 {
		t.Errorf("%d invites were made", len(made))
	}
	open := serve(t, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--store", "mem", "--width", "100", "--height", "100")
	if r := open.ctl("invite", "create", "3"); r.code != 1 || !strings.Contains(r.stderr, "--auth=invite") {
		t.Errorf("a board without invites: %d %s", r.code, r.stderr)
	}
}
