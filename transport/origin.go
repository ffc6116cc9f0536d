package transport

import (
	"net/http"
	"net/url"
	"strings"
)

// checkOrigin decides whether a session may be opened from where the request says it comes. A browser always names the
// origin of the page that opens a websocket, so:
//
//   - an origin that is the own host, with either scheme (TLS may end at a proxy), or in AllowedOrigins, is let in;
//   - any other one, "null" and a doubled header among them, is not, whoever asks;
//   - none at all comes from a program. It is let in unless a cookie says who it is: cookies are for browsers, which name
//     an origin, and programs have bearer tokens. So no way remains to use somebody's cookie from elsewhere.
func (s *Server) checkOrigin(r *http.Request, who identity) *problem {
	origins := r.Header.Values("Origin")
	switch {
	case len(origins) == 0 && who.by == byCookie:
		return newProblem(problemOrigin, "a cookie needs an Origin header; programs use a bearer token")
	case len(origins) == 0:
		return nil
	case len(origins) == 1 && (s.origins[origins[0]] || sameHost(origins[0], r.Host)):
		return nil
	}
	return newProblem(problemOrigin, "")
}

// sameHost reports whether the origin is a page of host, which is a Host header.
func sameHost(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Scheme+"://"+u.Host != origin {
		return false
	}
	port := ":80"
	if u.Scheme == "https" {
		port = ":443"
	}
	return host != "" && strings.EqualFold(strings.TrimSuffix(u.Host, port), strings.TrimSuffix(host, port))
}
