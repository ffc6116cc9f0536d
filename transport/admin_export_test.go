package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/placed-board/placed/board"
)

// fakeExporter writes text, then fails if it has an error.
type fakeExporter struct {
	mu    sync.Mutex // guards asked
	asked []ExportQuery
	text  string
	err   error
	gate  chan struct{} // Export waits for it to be closed; nil: for nothing
	begun chan struct{}
}

func (f *fakeExporter) Export(ctx context.Context, w io.Writer, ask ExportQuery) (int64, error) {
	f.mu.Lock()
	f.asked = append(f.asked, ask)
	f.mu.Unlock()
	if _, err := io.WriteString(w, f.text); err != nil {
		return 0, err
	}
	if f.gate != nil {
		close(f.begun)
		select {
		case <-f.gate:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return 3, f.err
}

func exportRequest(t *testing.T, h *harness, query string, header ...string) (*http.Response, []byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.adm+"/admin/v1/export?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testToken)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, body, err
}

func TestExportStreams(t *testing.T) {
	h := start(t, nil)
	f := &fakeExporter{text: "some rows\n"}
	h.deps.Exporter = f
	resp, body, err := exportRequest(t, h, "format=ndjson&from=5&to=9&rect=1,2,3,4&names=1", headerPseudonymKey, "0aff")
	if err != nil || string(body) != f.text || resp.Header.Get("Content-Type") != "application/x-ndjson" || resp.Trailer.Get(headerPlacements) != "3" {
		t.Fatalf("%q, %v, %v, %v", body, resp.Header, resp.Trailer, err)
	}
	want := ExportQuery{Format: "ndjson", FromMs: 5, ToMs: 9, Rect: &board.Rect{X: 1, Y: 2, Width: 3, Height: 4}, Names: true, Key: []byte{10, 255}}
	if !reflect.DeepEqual(f.asked[0], want) {
		t.Errorf("asked for %+v, want %+v", f.asked[0], want)
	}
}

// TestExportFails: a failure before the first byte is a problem, one on the way cuts the answer off.
func TestExportFails(t *testing.T) {
	h := start(t, nil)
	f := &fakeExporter{err: errors.New("the disk is gone")}
	h.deps.Exporter = f
	if resp, body, err := exportRequest(t, h, ""); err != nil || resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), `"code":"store"`) {
		t.Errorf("before: %d %s %v", resp.StatusCode, body, err)
	}
	f.text = strings.Repeat("a row\n", 100_000)
	if resp, _, err := exportRequest(t, h, ""); err == nil || resp.Trailer.Get(headerPlacements) != "" {
		t.Errorf("on the way: no error, trailer %v", resp.Trailer)
	}
	for _, query := range []string{"format=xml", "from=x", "to=1.5", "from=5&to=5", "rect=1,2,3", "rect=1,2,0,4", "rect=0,0,99999,1", "names=perhaps", "nmaes=1"} {
		wantProblem(t, query, h.admin("GET", "/admin/v1/export?"+query, ""), 400, problemBadRequest)
	}
	if _, body, _ := exportRequest(t, h, "", headerPseudonymKey, "zz"); !strings.Contains(string(body), "hexadecimal") {
		t.Errorf("a key of no digits: %s", body)
	}
	h.deps.Exporter = nil
	wantProblem(t, "without an exporter", h.admin("GET", "/admin/v1/export", ""), 404, problemNotFound)
}

func TestOneExportAtATime(t *testing.T) {
	h := start(t, nil)
	f := &fakeExporter{gate: make(chan struct{}), begun: make(chan struct{})}
	h.deps.Exporter = f
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _, _ = exportRequest(t, h, "")
	}()
	<-f.begun
	wantProblem(t, "a second export", h.admin("GET", "/admin/v1/export", ""), 409, problemRunning)
	close(f.gate)
	<-done
}
