package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/placed-board/placed/archive"
)

// How often progress shows: on a terminal, and as lines of a log.
const (
	barEvery  = 200 * time.Millisecond
	lineEvery = 10 * time.Second
	barWidth  = 30
)

// progressBar shows how far a command is: one line that changes, on a terminal; elsewhere a line now and then.
type progressBar struct {
	out    io.Writer
	quiet  bool
	phase  archive.Phase
	begun  time.Time // the phase
	last   time.Time // shown
	showed bool      // the line on the terminal is not empty
}

// show takes how far it is; it is cheap when nothing is due.
func (b *progressBar) show(p archive.Progress) {
	now := time.Now()
	if b.quiet {
		return
	}
	if p.Phase != b.phase {
		b.clear()
		b.phase, b.begun, b.last = p.Phase, now, now
		return
	}
	every := lineEvery
	if terminal(b.out) {
		every = barEvery
	}
	if now.Sub(b.last) < every {
		return
	}
	b.last = now
	portion := 0.0
	if p.Total > 0 {
		portion = min(float64(p.Done)/float64(p.Total), 1)
	}
	left := ""
	if portion > 0.01 {
		left = ", " + time.Duration(float64(now.Sub(b.begun))*(1-portion)/portion).Round(time.Second).String() + " left"
	}
	if !terminal(b.out) {
		fmt.Fprintf(b.out, "%s: %3.0f%%%s\n", p.Phase, portion*100, left)
		return
	}
	full := int(portion * barWidth)
	fmt.Fprintf(b.out, "\r%-8s [%s%s] %3.0f%%%-12s", p.Phase, strings.Repeat("#", full), strings.Repeat(".", barWidth-full), portion*100, left)
	b.showed = true
}

// clear empties the line for other output.
func (b *progressBar) clear() {
	if b.showed {
		fmt.Fprintf(b.out, "\r%*s\r", barWidth+40, "")
		b.showed = false
	}
}

// terminal reports whether somebody watches.
func terminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
