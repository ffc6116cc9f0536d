package transport

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

func testPage() fstest.MapFS {
	return fstest.MapFS{
		"index.html":           {Data: []byte(`<!doctype html><link href="style.css"><script type="module" src="/assets/app.js"></script><p>"app.js.map"</p>`)},
		"style.css":            {Data: []byte("body{}")},
		"assets/app.js":        {Data: bytes.Repeat([]byte("console.log('placed');\n"), 200)},
		"assets/icon.svg":      {Data: []byte("<svg/>")},
		"manifest.webmanifest": {Data: []byte("{}")},
	}
}

// TestPage fetches the page as a browser does: the index, then what it names.
func TestPage(t *testing.T) {
	h := start(t, func(cfg *Config) { cfg.Web = testPage() })
	index := h.do("GET", "/", "")
	for header, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
		"Content-Security-Policy": contentSecurityPolicy, "Set-Cookie": "",
	} {
		if got := index.Header.Get(header); got != want {
			t.Errorf("%s %q, want %q", header, got, want)
		}
	}
	names := regexp.MustCompile(`"(assets/[0-9a-f]{16}/[a-z.]+)"`).FindAllStringSubmatch(string(index.body), -1)
	if len(names) != 2 || !strings.HasSuffix(names[0][1], "/style.css") || !strings.HasSuffix(names[1][1], "/app.js") {
		t.Fatalf("the index names %v: %s", names, index.body)
	}
	for _, name := range names {
		res := h.do("GET", "/"+name[1], "")
		if res.StatusCode != 200 || res.Header.Get("Cache-Control") != cacheForever || res.Header.Get("ETag") == "" {
			t.Errorf("%s: %d %v", name[1], res.StatusCode, res.Header)
		}
	}
	js := "/" + names[1][1]
	plain, zipped := h.do("GET", js, ""), h.do("GET", js, "", "Accept-Encoding: gzip")
	if zipped.Header.Get("Content-Encoding") != "gzip" || !bytes.Equal(gunzip(t, zipped.body), plain.body) || plain.Header.Get("Vary") != "Accept-Encoding" {
		t.Errorf("gzip: %v", zipped.Header)
	}
	if plain.Header.Get("Content-Type") != "text/javascript; charset=utf-8" || plain.Header.Get("ETag") == zipped.Header.Get("ETag") {
		t.Errorf("%v", plain.Header)
	}
	for _, c := range []struct{ path, tag string }{{"/", index.Header.Get("ETag")}, {js, plain.Header.Get("ETag")}} {
		if res := h.do("GET", c.path, "", "If-None-Match: "+c.tag); res.StatusCode != 304 || len(res.body) != 0 {
			t.Errorf("%s asked again: %d", c.path, res.StatusCode)
		}
	}
	for _, path := range []string{"/app.js", "/assets/app.js", "/assets/0000000000000000/app.js", "/style.css"} {
		if res := h.do("GET", path, ""); res.StatusCode != 200 || res.Header.Get("Cache-Control") != cacheAsk {
			t.Errorf("%s: %d %q", path, res.StatusCode, res.Header.Get("Cache-Control"))
		}
	}
	if res := h.do("HEAD", "/", ""); res.StatusCode != 200 || len(res.body) != 0 || res.Header.Get("Content-Length") == "0" {
		t.Errorf("HEAD: %d %v", res.StatusCode, res.Header)
	}
	for _, path := range []string{
		"/index.html.bak", "/assets/" + h.page.hash + "/nothing.js", "/assets/", "/..%2f..%2fetc/passwd", "/assets/x/..%2f..%2f..%2fetc%2fpasswd", "/.git/config",
	} {
		wantProblem(t, path, h.do("GET", path, ""), 404, problemNotFound)
	}
	wantProblem(t, "posting a file", h.do("POST", "/style.css", ""), 404, problemNotFound)
}

// TestPageIdentity checks who gets an identity with the page: a browser that opens it without a good one, and nobody else.
func TestPageIdentity(t *testing.T) {
	h := start(t, func(cfg *Config) { cfg.Web = testPage() })
	const opens = "Sec-Fetch-Dest: document"
	first := h.do("GET", "/", "", opens)
	if c := first.Cookies(); len(c) != 1 || first.Header.Get("Cache-Control") != "private, no-cache" {
		t.Fatalf("cookies %v, %v", c, first.Header)
	}
	cookie := "Cookie: " + CookieName + "=" + first.Cookies()[0].Value
	if m, _ := h.me(cookie); !strings.HasPrefix(string(m.User), AnonymousPrefix) {
		t.Errorf("%+v", m)
	}
	for name, c := range map[string]struct {
		header []string
		want   int
	}{
		"again":                  {[]string{opens, cookie}, 0},
		"a bad cookie":           {[]string{opens, "Cookie: " + CookieName + "=bad"}, 1},
		"a program":              {nil, 0},
		"a fetch":                {[]string{"Sec-Fetch-Dest: empty"}, 0},
		"a browser with a token": {[]string{opens, "Authorization: Bearer " + h.token("ann")}, 0},
		"asking for a change":    {[]string{opens, "If-None-Match: " + first.Header.Get("ETag")}, 1},
	} {
		if res := h.do("GET", "/", "", c.header...); len(res.Cookies()) != c.want {
			t.Errorf("%s: %d, cookies %v", name, res.StatusCode, res.Cookies())
		}
	}
	if res := h.do("HEAD", "/", "", opens); len(res.Cookies()) != 0 {
		t.Error("HEAD hands out an identity")
	}
}

func TestPlainPage(t *testing.T) {
	h := start(t, nil)
	res := h.do("GET", "/", "")
	if res.StatusCode != 200 || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain") || !strings.Contains(string(res.body), "/api/v1/board") {
		t.Errorf("%d %v %s", res.StatusCode, res.Header, res.body)
	}
}

// TestPageHash checks that any change of any file makes another address for all.
func TestPageHash(t *testing.T) {
	hash := func(change func(fstest.MapFS)) string {
		web := testPage()
		change(web)
		p, err := newPage(web)
		if err != nil {
			t.Fatal(err)
		}
		return p.hash
	}
	seen := map[string]string{}
	for name, change := range map[string]func(fstest.MapFS){
		"none":    func(fstest.MapFS) {},
		"css":     func(m fstest.MapFS) { m["style.css"].Data = []byte("body{ }") },
		"index":   func(m fstest.MapFS) { m["index.html"].Data = []byte("x") },
		"new":     func(m fstest.MapFS) { m["new.js"] = &fstest.MapFile{} },
		"renamed": func(m fstest.MapFS) { m["styles.css"] = m["style.css"]; delete(m, "style.css") },
	} {
		h := hash(change)
		if other, ok := seen[h]; ok {
			t.Errorf("%s and %s have the same hash", name, other)
		}
		seen[h] = name
	}
	web := testPage()
	delete(web, "index.html")
	if _, err := newPage(web); err == nil {
		t.Error("a page without an index")
	}
}
