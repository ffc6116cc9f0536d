// Package backup writes a board of the embedded store into one archive and puts it back.
//
// An archive is a tar file: manifest.json first (Manifest: what is inside, with sizes), then the store's files, last SHA256SUMS
// over all of them, in the form that sha256sum -c reads. An archive without its last file was cut short. It holds no secrets:
// the admin token and the session key are no part of the board.
package backup

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/placed-board/placed/store"
)

// Format is the version of archives; a reader refuses a higher one.
const Format = 1

// Names of the files that the archive adds.
const (
	manifestName = "manifest.json"
	sumsName     = "SHA256SUMS"
)

// Bounds of an archive.
const (
	manifestBytesMax = 16 << 20
	filesMax         = 100_000
)

// Manifest tells what an archive holds.
type Manifest struct {
	Format      int    `json:"format"`
	Version     string `json:"version"` // of the program that wrote it
	Store       string `json:"store"`   // "pebble"
	StoreFormat int    `json:"store_format"`
	Epoch       string `json:"epoch"` // hexadecimal
	AtMs        int64  `json:"at_ms"` // Unix milliseconds
	Files       []File `json:"files"` // in their order in the archive
}

// File is one file of the store.
type File struct {
	Name string `json:"name"`
	Size int64  `json:"size"` // bytes
}

// Bytes returns the size of all files.
func (m *Manifest) Bytes() int64 {
	n := int64(0)
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// At returns when the archive was begun.
func (m *Manifest) At() time.Time { return time.UnixMilli(m.AtMs).UTC() }

// ErrDamaged says that an archive is cut short, changed, or none.
var ErrDamaged = errors.New("damaged archive")

// ErrUnable says that a store cannot be backed up by placed.
var ErrUnable = errors.New("placed backs up the embedded store alone; the tools of the others do it for theirs (docs/operations.md)")

// Write writes the board as it is now into an archive. Placements go on meanwhile. Nothing is written when err is returned before
// the first byte, as for ErrUnable.
func Write(ctx context.Context, w io.Writer, st store.Store, version string) (err error) {
	c, ok := st.(store.Checkpointer)
	if !ok {
		return fmt.Errorf("backup: this board is kept in %s: %w", st.Capabilities().Name, ErrUnable)
	}
	meta, err := st.Meta(ctx)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	m := Manifest{
		Format: Format, Version: version, Store: st.Capabilities().Name, StoreFormat: meta.Format,
		Epoch: fmt.Sprintf("%016x", meta.Epoch), AtMs: time.Now().UnixMilli(),
	}
	dir, release, err := c.Checkpoint(ctx)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	defer func() { err = errors.Join(err, release()) }()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return fmt.Errorf("backup: %w", err)
		}
		if info.Mode().IsRegular() && e.Name() != lockName {
			m.Files = append(m.Files, File{e.Name(), info.Size()})
		}
	}
	a := &writer{tar: tar.NewWriter(w), at: m.At()}
	if err := a.manifest(&m); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	for _, f := range m.Files {
		if err := a.file(ctx, filepath.Join(dir, f.Name), f); err != nil {
			return fmt.Errorf("backup: %s: %w", f.Name, err)
		}
	}
	if err := a.close(); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}

// writer writes an archive and its sums.
type writer struct {
	tar  *tar.Writer
	at   time.Time
	sums bytes.Buffer
}

// entry begins a file and returns where its bytes go.
func (a *writer) entry(name string, size int64) (io.Writer, hash.Hash, error) {
	sum := sha256.New()
	err := a.tar.WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o600, ModTime: a.at, Format: tar.FormatPAX})
	return io.MultiWriter(a.tar, sum), sum, err
}

func (a *writer) sum(name string, h hash.Hash) { fmt.Fprintf(&a.sums, "%x  %s\n", h.Sum(nil), name) }

func (a *writer) manifest(m *Manifest) error {
	b, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	w, h, err := a.entry(manifestName, int64(len(b)))
	if err != nil {
		return err
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	a.sum(manifestName, h)
	return nil
}

func (a *writer) file(ctx context.Context, path string, f File) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	w, h, err := a.entry(f.Name, f.Size)
	if err != nil {
		return err
	}
	if _, err := io.CopyN(w, in, f.Size); err != nil {
		return err
	}
	a.sum(f.Name, h)
	return nil
}

func (a *writer) close() error {
	if err := a.tar.WriteHeader(&tar.Header{Name: sumsName, Size: int64(a.sums.Len()), Mode: 0o600, ModTime: a.at}); err != nil {
		return err
	}
	if _, err := a.tar.Write(a.sums.Bytes()); err != nil {
		return err
	}
	return a.tar.Close()
}

// Check reads an archive to its end and compares it with its manifest and sums; an error wraps ErrDamaged.
func Check(r io.Reader) (Manifest, error) {
	return read(r, nil, func(string) (io.WriteCloser, error) { return discard{}, nil })
}

// extract does the same and keeps the files in dir, each synced. first (nil: nothing) hears of the manifest before any file is
// written, and may refuse.
func extract(r io.Reader, dir string, first func(*Manifest) error) (Manifest, error) {
	return read(r, first, func(name string) (io.WriteCloser, error) {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		return syncing{f}, err
	})
}

type discard struct{}

// Write implements io.Writer.
func (discard) Write(p []byte) (int, error) { return len(p), nil }

// Close implements io.Closer.
func (discard) Close() error { return nil }

// syncing is a file that is on the disk when it is closed.
type syncing struct{ *os.File }

// Close implements io.Closer.
func (s syncing) Close() error { return errors.Join(s.Sync(), s.File.Close()) }

// plainName keeps an archive from writing anywhere but into its directory.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

func read(r io.Reader, first func(*Manifest) error, create func(name string) (io.WriteCloser, error)) (Manifest, error) {
	t := tar.NewReader(bufio.NewReaderSize(r, 1<<20))
	var m Manifest
	sums := map[string]string{}
	next := func(name string) (*tar.Header, error) {
		h, err := t.Next()
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: it ends before %s: %w", ErrDamaged, name, err)
		case h.Name != name || h.Typeflag != tar.TypeReg:
			return nil, fmt.Errorf("%w: %q where %s should be", ErrDamaged, h.Name, name)
		}
		return h, nil
	}
	h, err := next(manifestName)
	if err != nil {
		return m, err
	}
	b, err := small(t, h)
	if err != nil {
		return m, err
	}
	sums[manifestName] = hexSum(b)
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("%w: %s: %w", ErrDamaged, manifestName, err)
	}
	if err := m.validate(); err != nil {
		return m, err
	}
	if first != nil {
		if err := first(&m); err != nil {
			return m, err
		}
	}
	for _, f := range m.Files {
		if h, err = next(f.Name); err != nil {
			return m, err
		}
		if h.Size != f.Size {
			return m, fmt.Errorf("%w: %s has %d bytes, not %d", ErrDamaged, f.Name, h.Size, f.Size)
		}
		if sums[f.Name], err = copyFile(t, f.Name, create); err != nil {
			return m, err
		}
	}
	if h, err = next(sumsName); err != nil {
		return m, err
	}
	if b, err = small(t, h); err != nil {
		return m, err
	}
	return m, compare(b, sums)
}

// validate refuses a manifest of a newer program, or one that no program of ours wrote.
func (m *Manifest) validate() error {
	switch {
	case m.Format < 1 || m.Store == "":
		return fmt.Errorf("%w: its manifest does not tell a format", ErrDamaged)
	case m.Format > Format || m.StoreFormat > store.FormatVersion:
		return fmt.Errorf("the archive is of placed %s: %w; take that one or a newer one", m.Version, store.ErrFormat)
	case m.Store != "pebble":
		return fmt.Errorf("%w: a board of %s", ErrDamaged, m.Store)
	case len(m.Files) > filesMax:
		return fmt.Errorf("%w: %d files", ErrDamaged, len(m.Files))
	}
	seen := map[string]bool{manifestName: true, sumsName: true, lockName: true}
	for _, f := range m.Files {
		if !plainName.MatchString(f.Name) || seen[f.Name] || f.Size < 0 {
			return fmt.Errorf("%w: a file %q of %d bytes", ErrDamaged, f.Name, f.Size)
		}
		seen[f.Name] = true
	}
	return nil
}

// small reads a file that is held in memory.
func small(t *tar.Reader, h *tar.Header) ([]byte, error) {
	if h.Size > manifestBytesMax {
		return nil, fmt.Errorf("%w: %s has %d bytes", ErrDamaged, h.Name, h.Size)
	}
	b, err := io.ReadAll(t)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, h.Name, err)
	}
	return b, nil
}

func copyFile(r io.Reader, name string, create func(string) (io.WriteCloser, error)) (sum string, err error) {
	out, err := create(name)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	in := &reader{Reader: r}
	_, err = io.Copy(io.MultiWriter(out, h), in)
	if in.err != nil {
		err = fmt.Errorf("%w: it ends in %s: %w", ErrDamaged, name, in.err)
	}
	return hex.EncodeToString(h.Sum(nil)), errors.Join(err, out.Close())
}

// reader tells errors of reading from those of writing.
type reader struct {
	io.Reader
	err error
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// compare holds the sums of the files against the archive's own.
func compare(list []byte, sums map[string]string) error {
	var wrong []string
	left := len(sums)
	for line := range strings.Lines(string(list)) {
		sum, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if sums[name] != sum || sum == "" {
			wrong = append(wrong, name)
		}
		left--
	}
	if len(wrong) > 0 || left != 0 {
		slices.Sort(wrong)
		return fmt.Errorf("%w: %d checksums are wrong %q, %d are missing", ErrDamaged, len(wrong), wrong, max(left, 0))
	}
	return nil
}
