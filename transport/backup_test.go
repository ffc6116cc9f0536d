package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/placed-board/placed/board"
)

func (h *harness) backup(t *testing.T) (*http.Response, []byte, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, h.adm+"/admin/v1/backup?by=zoe", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testToken)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	return answer, b, err
}

// TestBackupStream: an archive comes whole, or the answer is broken off; a store that cannot says so before the first byte.
func TestBackupStream(t *testing.T) {
	h := start(t, nil)
	archive := bytes.Repeat([]byte("archive "), 100_000)
	h.fake.mu.Lock()
	h.fake.archive = archive
	h.fake.mu.Unlock()
	answer, b, err := h.backup(t)
	if err != nil || answer.StatusCode != http.StatusOK || !bytes.HasSuffix(b, archive) || answer.Header.Get("Content-Type") != "application/x-tar" {
		t.Fatalf("%v, %d of %d bytes, %v", answer.Status, len(b), len(archive), err)
	}
	if !strings.Contains(h.logs.String(), "backed up") || !strings.Contains(h.logs.String(), "by=zoe") {
		t.Errorf("the log does not tell: %s", h.logs.String())
	}
	h.fake.mu.Lock()
	h.fake.archiveErr = errors.New("the disk is gone")
	h.fake.mu.Unlock()
	if _, b, err := h.backup(t); err == nil {
		t.Errorf("a backup that failed half way ended in peace after %d bytes", len(b))
	}
	h.fake.mu.Lock()
	h.fake.adminErr = fmt.Errorf("%w: kept in memory", board.ErrRefused)
	h.fake.mu.Unlock()
	if answer, b, err := h.backup(t); err != nil || answer.StatusCode != http.StatusConflict || !bytes.Contains(b, []byte("kept in memory")) {
		t.Errorf("a store that cannot: %v %s, %v", answer.Status, b, err)
	}
}

// TestReset: only the board that is named is reset, so that the same request again does nothing.
func TestReset(t *testing.T) {
	h := start(t, nil)
	epoch := fmt.Sprintf("%016x", h.fake.Epoch())
	for _, c := range []struct {
		body   string
		status int
	}{
		{`{"epoch":"0000000000000000","why":"x"}`, http.StatusConflict},
		{`{"why":"x"}`, http.StatusConflict},
		{`{"epoch":"` + epoch + `","by":"` + strings.Repeat("n", 49) + `"}`, http.StatusBadRequest},
		{`{"epoch":"` + epoch + `","by":"zoe","why":"again"}`, http.StatusAccepted},
	} {
		if answer := h.admin("POST", "/admin/v1/reset", c.body); answer.StatusCode != c.status {
			t.Errorf("%s: %d %s, want %d", c.body, answer.StatusCode, answer.body, c.status)
		}
	}
	h.fake.mu.Lock()
	defer h.fake.mu.Unlock()
	if !slices.Equal(h.fake.resets, []string{"zoe again"}) {
		t.Errorf("resets are %q", h.fake.resets)
	}
}
