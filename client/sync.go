package client

import (
	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/wire"
)

// syncer decides what brings a mirror to date: subscribe first, keep frames aside while the board is fetched, drop what is
// older, apply the rest, ask for what is missing, compare hashes. It does no I/O and knows no clock; the Session calls it
// under its mutex and then acts on take().
type syncer struct {
	mirror      *Mirror // nil before the first hello
	whole       bool
	rect        wire.ChunkRect
	incarnation uint64
	connected   bool

	basesDue   int // Subscribes without an answer
	resuming   bool
	positioned bool // the mirror's positions are those of incarnation at its tick: frames continue there
	loading    bool // the board is being fetched
	direct     bool // while loading: the buffer was full, frames go straight to the mirror
	buffer     []buffered
	bufferSize int
	hashesOf   []wire.ChunkRect // GetHashes to send; the first is under way when hashesSent
	hashesSent bool
	silent     int // heartbeats since the oldest unanswered Subscribe, Repair or GetHashes
	ahead      int // heartbeats in a row with chunks ahead and nothing else amiss

	out   []wire.ClientMessage
	fetch bool
	fault string // why the connection should be given up

	fetches, repairs, divergences, resumes uint64
}

// buffered is a message kept aside while the board is fetched: a frame, or new settings.
type buffered struct {
	frame    []byte
	settings *wire.SettingsChanged
}

// Heartbeats without an answer after which the connection is given up, and with chunks ahead after which they are compared.
const (
	silentHeartbeatsMax = 2
	aheadHeartbeatsMax  = 3
)

// actions is what a session does after an event.
type actions struct {
	send  []wire.ClientMessage
	fetch bool   // GET the board and call body
	fault string // give up the connection
}

func (y *syncer) take() actions {
	a := actions{y.out, y.fetch, y.fault}
	y.out, y.fetch, y.fault = nil, false, ""
	return a
}

// state tells where the mirror stands.
func (y *syncer) state() State {
	switch {
	case !y.connected:
		return StateConnecting
	case y.basesDue > 0:
		return StateSubscribing
	case y.loading:
		return StateLoading
	case y.mirror.wanting > 0 || y.mirror.asked > 0 || y.mirror.unknown > 0 || y.hashesSent:
		return StateRepairing
	}
	return StateLive
}

// hello begins a connection.
func (y *syncer) hello(h *wire.Hello) {
	same := y.mirror != nil && y.mirror.Epoch() == h.Epoch
	// Changes of settings that were missed may have hidden chunks and shown them again: frames alone do not tell.
	y.positioned = y.positioned && same && y.incarnation == h.Incarnation && h.Settings.Version == y.mirror.settings.Version
	if !same {
		y.mirror = &Mirror{everything: y.whole, watched: y.rect}
		y.mirror.Reset(h.Epoch, &h.Settings)
	} else if h.Settings.Version > y.mirror.settings.Version {
		y.mirror.ApplySettings(&h.Settings)
	}
	var resume *wire.Resume
	if y.positioned {
		resume = &wire.Resume{Epoch: h.Epoch, Incarnation: h.Incarnation, Tick: y.mirror.ResumeTick()}
	}
	y.connected, y.incarnation = true, h.Incarnation
	y.subscribe(resume)
}

// watch changes the subscription.
func (y *syncer) watch(whole bool, rect wire.ChunkRect) {
	y.whole, y.rect = whole, rect
	if y.mirror != nil {
		y.mirror.Watch(whole, rect)
	}
	if y.connected {
		y.subscribe(nil)
	}
}

func (y *syncer) subscribe(resume *wire.Resume) {
	y.basesDue++
	y.resuming = resume != nil
	y.silent = 0
	y.hashesOf = nil
	y.out = append(y.out, &wire.Subscribe{Whole: y.whole, Chunks: y.rect, Resume: resume})
}

// lost ends a connection. What the mirror holds stays true.
func (y *syncer) lost() {
	y.connected, y.loading, y.direct, y.resuming = false, false, false, false
	y.basesDue, y.silent, y.ahead = 0, 0, 0
	y.dropBuffer()
	y.hashesOf, y.hashesSent = nil, false
	y.out, y.fetch, y.fault = nil, false, ""
}

// base answers the subscription.
func (y *syncer) base(b *wire.Base) {
	if y.basesDue == 0 {
		return
	}
	y.basesDue--
	if y.basesDue > 0 {
		return // of a subscription that has been replaced already
	}
	if b.Resumed && y.resuming {
		y.resumes++
	}
	y.resuming, y.positioned, y.silent = false, true, 0
	y.mirror.ApplyBase(b)
	chunks, _, behind := y.mirror.Counts()
	if y.loading {
		return // subscribed anew while the board is under way
	}
	if !y.mirror.loaded && y.mirror.settings.Whole() && behind >= fetchInsteadChunksMin && 4*behind >= chunks {
		y.loading, y.fetch = true, true
		y.fetches++
		return
	}
	y.mirror.loaded = true
	y.ask()
}

// frame takes a frame; b is used again by the caller.
func (y *syncer) frame(b []byte) error {
	switch {
	case !y.positioned:
		return nil // nobody knows where it begins
	case y.loading && !y.direct:
		y.keep(buffered{frame: append(make([]byte, 0, len(b)), b...)}, len(b))
		return nil
	}
	err := y.applyFrame(b)
	y.ask()
	return err
}

func (y *syncer) applyFrame(b []byte) error {
	err := y.mirror.Apply(b)
	if err != nil {
		y.positioned = false
		y.fault = "a frame that is none: " + err.Error()
	}
	return err
}

// keep puts a message aside. When the buffer is full everything goes to the mirror, which then only counts: the chunks
// touched are behind, and repaired once the board is there.
func (y *syncer) keep(m buffered, size int) {
	y.buffer = append(y.buffer, m)
	y.bufferSize += size
	if y.bufferSize > loadBufferBytesMax {
		y.direct = true
		y.replay()
	}
}

func (y *syncer) replay() {
	buffer := y.buffer
	y.dropBuffer()
	for _, m := range buffer {
		if m.settings != nil {
			y.newSettings(m.settings)
		} else if y.applyFrame(m.frame) != nil {
			return
		}
	}
}

func (y *syncer) dropBuffer() { y.buffer, y.bufferSize = nil, 0 }

// body takes the fetched board. An error says that it is of no use and should be fetched again.
func (y *syncer) body(b *wire.BoardBody) error {
	if !y.loading {
		return nil
	}
	if err := y.mirror.ApplyBody(b); err != nil {
		return err
	}
	y.loaded()
	return nil
}

// noBody gives up fetching: everything that is behind is repaired instead.
func (y *syncer) noBody() {
	if y.loading {
		y.mirror.loaded = true
		y.loaded()
	}
}

func (y *syncer) loaded() {
	y.loading, y.direct = false, false
	y.replay()
	y.ask()
}

// settingsChanged takes new settings. A node sends them between the frames up to their tick and those after it, so they are
// in force as they arrive.
func (y *syncer) settingsChanged(s *wire.SettingsChanged) {
	if y.mirror == nil {
		return
	}
	if y.loading && !y.direct {
		y.keep(buffered{settings: s}, 256)
		return
	}
	y.newSettings(s)
	y.ask()
}

// newSettings adopts settings. When versions were left out in between, chunks may have been hidden and shown again without
// a word: a new base tells where everything stands.
func (y *syncer) newSettings(s *wire.SettingsChanged) {
	was := y.mirror.settings.Version
	if s.Settings.Version <= was {
		return
	}
	y.mirror.ApplySettings(&s.Settings)
	if s.Settings.Version > was+1 {
		y.subscribe(nil)
	}
}

// heartbeat compares hashes, and notices answers that do not come. It returns the mirror's hashes and whether they differ.
func (y *syncer) heartbeat(h *wire.Heartbeat) (have board.Hashes, diverged bool) {
	if y.mirror == nil {
		return have, false
	}
	if y.basesDue > 0 || y.mirror.asked > 0 || y.hashesSent {
		if y.silent++; y.silent > silentHeartbeatsMax {
			y.fault = "a request without an answer"
		}
		return have, false
	}
	y.silent = 0
	if y.loading {
		return have, false
	}
	y.mirror.Reached(h.Tick)
	y.mirror.Retry()
	if !y.mirror.Settled() {
		if y.ahead++; y.ahead >= aheadHeartbeatsMax && y.mirror.wanting == 0 {
			y.heal()
		}
		y.ask()
		return have, false
	}
	y.ahead = 0
	have = y.mirror.Hashes()
	if have == h.Hashes {
		return have, false
	}
	y.heal()
	y.ask()
	return have, true
}

// heal asks for the hashes of everything mirrored.
func (y *syncer) heal() {
	y.divergences++
	y.ahead = 0
	y.mirror.rehash()
	y.hashesOf = append(y.hashesOf, split(y.mirror.area, wire.HashesChunksMax)...)
}

// hashes takes the answer to GetHashes.
func (y *syncer) hashes(h *wire.ChunkHashes) {
	if !y.hashesSent {
		return
	}
	y.hashesSent, y.silent = false, 0
	if len(y.hashesOf) == 0 {
		return // subscribed anew since
	}
	rect := y.hashesOf[0]
	y.hashesOf = y.hashesOf[1:]
	y.mirror.ApplyHashes(rect, h)
	y.ask()
}

// ask sends the next Repair and GetHashes; one of each may be under way.
func (y *syncer) ask() {
	if !y.connected || y.basesDue > 0 || y.loading {
		return
	}
	if y.mirror.unknown > 0 && len(y.hashesOf) == 0 {
		y.hashesOf = y.mirror.Unknown(wire.HashesChunksMax)
	}
	if len(y.hashesOf) > 0 && !y.hashesSent {
		y.hashesSent, y.silent = true, 0
		y.out = append(y.out, &wire.GetHashes{Chunks: y.hashesOf[0]})
	}
	if y.mirror.asked == 0 && y.mirror.wanting > 0 && !y.hashesSent {
		list := y.mirror.Behind(wire.RepairChunksMax)
		y.repairs += uint64(len(list))
		y.silent = 0
		y.out = append(y.out, &wire.Repair{Chunks: list})
	}
}
