package transport

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Keeper looks after what the board is kept in.
type Keeper interface {
	// Backup writes an archive of the board as it is now. An error before the first byte that wraps board.ErrRefused says that
	// this store cannot, or not now.
	Backup(ctx context.Context, w io.Writer) error
	// Reset replaces the board by an empty one under a new epoch, with the same settings. It returns when that is decided; the
	// node then ends its sessions and starts anew.
	Reset(ctx context.Context, by, why string) error
}

// archiveBufferBytes is what is gathered of an archive before it is sent.
const archiveBufferBytes = 256 << 10

// archiveWriter sends an archive; the answer is a success once there is something to send. A client that reads nothing for
// Config.ResponseTimeout is let go.
type archiveWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	begun   bool
}

// Write implements io.Writer.
func (a *archiveWriter) Write(p []byte) (int, error) {
	if !a.begun {
		a.begun = true
		a.w.Header().Set("Content-Type", "application/x-tar")
		a.w.WriteHeader(http.StatusOK)
	}
	if err := a.control.SetWriteDeadline(time.Now().Add(a.timeout)); err != nil {
		return 0, err
	}
	return a.w.Write(p)
}

// adminBackup streams the archive. An answer that fails half way is broken off, so that nobody takes it for a whole one.
func (s *Server) adminBackup(w http.ResponseWriter, r *http.Request) {
	by, _, p := whoAndWhy(r, r.URL.Query().Get("by"), "")
	if p != nil {
		s.fail(w, p)
		return
	}
	out := &archiveWriter{w: w, control: http.NewResponseController(w), timeout: s.cfg.ResponseTimeout}
	buffered := bufio.NewWriterSize(out, archiveBufferBytes)
	began := time.Now()
	err := s.deps.Keeper.Backup(r.Context(), buffered)
	if err != nil && !out.begun {
		s.askFailed(w, r, err)
		return
	}
	if err == nil {
		err = buffered.Flush()
	}
	if err != nil {
		s.log.Warn("a backup was broken off", "by", by, "err", err)
		panic(http.ErrAbortHandler)
	}
	s.log.Info("backed up", "by", by, "ms", time.Since(began).Milliseconds())
}

// reset is the body of POST /admin/v1/reset.
type reset struct {
	Epoch string `json:"epoch"` // of the board that is to go, as status tells it: the same request again changes nothing
	By    string `json:"by"`
	Why   string `json:"why"`
}

func (s *Server) adminReset(w http.ResponseWriter, r *http.Request) {
	var body reset
	if p := readJSON(w, r, adminBodyBytesMax, &body); p != nil {
		s.fail(w, p)
		return
	}
	by, why, p := whoAndWhy(r, body.By, body.Why)
	if epoch := fmt.Sprintf("%016x", s.deps.Board.Epoch()); p == nil && body.Epoch != epoch {
		p = newProblem(problemRefused, fmt.Sprintf("the board's epoch is %s, not %q: is it reset already?", epoch, body.Epoch))
	}
	if p != nil {
		s.fail(w, p)
		return
	}
	if err := s.deps.Keeper.Reset(r.Context(), by, why); err != nil {
		s.askFailed(w, r, err)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}
