package transport

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// withinBase takes the base path off a request, so that the routes need not know it; false when the request has been answered.
// Probes of the node's health also come without.
func (s *Server) withinBase(w http.ResponseWriter, r *http.Request) (*http.Request, bool) {
	base := s.cfg.BasePath
	if base == "" || r.URL.Path == livezPath || r.URL.Path == readyzPath {
		return r, true
	}
	if r.URL.Path == base && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		w.Header().Set("Location", base+"/") // relative addresses of the page begin behind the slash
		w.WriteHeader(http.StatusPermanentRedirect)
		return nil, false
	}
	path, ok := strings.CutPrefix(r.URL.Path, base)
	raw, okRaw := strings.CutPrefix(r.URL.RawPath, base)
	if !ok || !strings.HasPrefix(path, "/") || r.URL.RawPath != "" && !okRaw {
		s.fail(w, newProblem(problemNotFound, "everything here is below "+base+"/"))
		return nil, false
	}
	inner := new(http.Request)
	*inner = *r
	inner.URL = new(url.URL)
	*inner.URL = *r.URL
	inner.URL.Path, inner.URL.RawPath = path, raw
	return inner, true
}

// checkBasePath returns an error for a base path that is not of the form "/a/b".
func checkBasePath(base string) error {
	if base == "" {
		return nil
	}
	u, err := url.Parse(base)
	if err != nil || u.Path != base || !strings.HasPrefix(base, "/") || strings.HasSuffix(base, "/") || strings.Contains(base, "//") ||
		strings.ContainsAny(base, " ;,") {
		return fmt.Errorf("transport: base path %q is not of the form /board: a slash before it and none behind", base)
	}
	return nil
}

// pagePolicy returns the Content-Security-Policy of the page: frames may show it on the own pages of embedOrigins alone.
func pagePolicy(embedOrigins []string) string {
	if len(embedOrigins) == 0 {
		return contentSecurityPolicy
	}
	return strings.Replace(contentSecurityPolicy, "frame-ancestors 'none'", "frame-ancestors "+strings.Join(embedOrigins, " "), 1)
}
