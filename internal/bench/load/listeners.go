package load

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/client"
	"github.com/placed-board/placed/internal/bench/ledger"
	"github.com/placed-board/placed/internal/bench/measure"
	"github.com/placed-board/placed/wire"
)

// fanoutSamplesMax bounds the placements whose way to the listeners is followed.
const fanoutSamplesMax = 20_000

// Listeners mirror the whole board. The first of them, the witness, also notes which tick carried which placement, so that
// the arrival of that tick at every other listener is the arrival of the placement.
type Listeners struct {
	listeners []*listener
	witness   *witness
}

type listener struct {
	session *client.Session
	mu      sync.Mutex
	ticks   []arrival // guarded by mu; ascending
}

// arrival is when a listener received a tick.
type arrival struct {
	tick uint64
	at   time.Time
}

// witness notes the placements in frames.
type witness struct {
	mu      sync.Mutex
	session *client.Session // set before the first frame of interest
	seen    []ledger.Seen
	ticks   []uint64 // of seen
}

// DialFunc opens a connection.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// ListenOptions change some of the listeners.
type ListenOptions struct {
	// Dial opens the connection of listener i; nil, or a nil result, for a plain one.
	Dial func(i int) DialFunc
}

// Listen opens n listeners and waits until each holds the whole board.
func Listen(ctx context.Context, url string, n int, o ListenOptions) (*Listeners, error) {
	l := &Listeners{listeners: make([]*listener, n), witness: &witness{}}
	err := parallel(n, func(i int) error {
		one := &listener{}
		options := client.Options{Whole: true, Mirror: true, Hooks: client.Hooks{OnFrame: one.frame}, Backoff: quickBackoff}
		if o.Dial != nil {
			options.Dial = o.Dial(i)
		}
		if i == 0 {
			options.Hooks.OnSection = l.witness.section
		}
		var err error
		if one.session, err = client.Dial(ctx, url, options); err != nil {
			return fmt.Errorf("listener %d: %w", i, err)
		}
		l.listeners[i] = one
		if i == 0 {
			l.witness.attach(one.session)
		}
		if err := one.session.Live(ctx); err != nil {
			return fmt.Errorf("listener %d is %v: %w", i, one.session.State(), err)
		}
		return nil
	})
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("open listeners: %w", err)
	}
	return l, nil
}

func (l *listener) frame(f client.FrameInfo) {
	if f.Repair {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.ticks); n == 0 || f.Tick > l.ticks[n-1].tick {
		l.ticks = append(l.ticks, arrival{f.Tick, f.At})
	}
}

// at returns when the listener had the tick: the arrival of the first frame that is not older.
func (l *listener) at(tick uint64) (time.Time, bool) {
	i, _ := slices.BinarySearchFunc(l.ticks, tick, func(a arrival, tick uint64) int {
		switch {
		case a.tick < tick:
			return -1
		case a.tick > tick:
			return 1
		}
		return 0
	})
	if i == len(l.ticks) {
		return time.Time{}, false
	}
	return l.ticks[i].at, true
}

func (w *witness) attach(session *client.Session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.session = session
}

// section notes the placements of a run whose first sequence number is certain: that of a mirror without gaps, plus one.
func (w *witness) section(f client.FrameInfo, s *wire.Section) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.session == nil || f.Repair || s.Kind != wire.SectionRun {
		return
	}
	sequence, certain := uint64(0), false
	_ = w.session.View(func(m *client.Mirror) {
		var tiles board.Tiles
		if m.Settled() {
			sequence, certain = m.Chunk(s.Chunk, &tiles)
		}
	})
	if !certain {
		return
	}
	for i, tile := range s.Tiles {
		w.seen = append(w.seen, ledger.Seen{Chunk: s.Chunk, Sequence: sequence + 1 + uint64(i), Tile: int(tile.Index), Colour: tile.Colour})
		w.ticks = append(w.ticks, f.Tick)
	}
}

// Seen returns the placements as the witness received them.
func (l *Listeners) Seen() []ledger.Seen {
	l.witness.mu.Lock()
	defer l.witness.mu.Unlock()
	return l.witness.seen
}

// FanoutConfig says which arrivals count.
type FanoutConfig struct {
	Start    time.Time           // of the run
	From, To time.Duration       // placements first sent within this time after the start
	User     func(user int) bool // placements of these users; nil: of all
	Listener func(i int) bool    // at these listeners; nil: at all
	Timeline *measure.Timeline   // also hears of each, by when it was sent; nil for nobody
}

// Fanout returns the times from the sending of placements to their arrival at listeners. With very many placements a sample
// is taken.
func (l *Listeners) Fanout(book *ledger.Ledger, c FanoutConfig) measure.Summary {
	type key struct {
		chunk    board.ChunkID
		sequence uint64
	}
	sent := map[key]time.Duration{}
	book.Each(func(a ledger.Accepted) {
		if a.Sent >= c.From && a.Sent < c.To && (c.User == nil || c.User(a.User)) {
			sent[key{a.Chunk, a.Sequence}] = a.Sent
		}
	})
	l.witness.mu.Lock()
	defer l.witness.mu.Unlock()
	recorder := measure.NewRecorder()
	every := len(sent)/fanoutSamplesMax + 1
	taken := 0
	for i, seen := range l.witness.seen {
		at, ok := sent[key{seen.Chunk, seen.Sequence}]
		if !ok {
			continue
		}
		if taken++; taken%every != 0 {
			continue
		}
		for n, one := range l.listeners {
			if c.Listener != nil && !c.Listener(n) {
				continue
			}
			one.mu.Lock()
			arrived, ok := one.at(l.witness.ticks[i])
			one.mu.Unlock()
			if ok {
				recorder.Record(n, arrived.Sub(c.Start.Add(at)))
				c.Timeline.Add(at, arrived.Sub(c.Start.Add(at)))
			}
		}
	}
	return recorder.Summary()
}

// Waits for the end of a run.
const (
	settlePollEvery = 100 * time.Millisecond
)

// Settle waits, at most for the given time, until a freshly fetched board has everything that the book's acceptances name
// and every mirror equals it: answers are quicker than frames. It returns the last board fetched, and how each listener that
// still differs does.
func (l *Listeners) Settle(ctx context.Context, api *client.API, book *ledger.Ledger, most time.Duration) (after *wire.BoardBody, divergent []string, err error) {
	deadline := time.Now().Add(most)
	for {
		after, err = api.Board(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("fetch the board: %w", err)
		}
		divergent = l.compare(after)
		if len(divergent) == 0 && holds(after, book) || time.Now().After(deadline) {
			return after, divergent, nil
		}
		if err := sleep(ctx, settlePollEvery); err != nil {
			return nil, nil, err
		}
	}
}

// holds reports whether the board has got as far as every acceptance says.
func holds(body *wire.BoardBody, book *ledger.Ledger) bool {
	sequences := make(map[board.ChunkID]uint64, len(body.Chunks))
	for i := range body.Chunks {
		sequences[body.Chunks[i].Chunk] = body.Chunks[i].Sequence
	}
	all := true
	book.Each(func(a ledger.Accepted) { all = all && a.Sequence <= sequences[a.Chunk] })
	return all
}

func (l *Listeners) compare(body *wire.BoardBody) (divergent []string) {
	for i, one := range l.listeners {
		var differ []board.ChunkID
		settled := false
		err := one.session.View(func(m *client.Mirror) { differ, settled = m.Diff(body), m.Settled() })
		if err != nil || len(differ) > 0 || !settled {
			divergent = append(divergent, fmt.Sprintf("listener %d: %s, %d chunks differ, settled %v, error %v", i, one.session.State(), len(differ), settled, err))
		}
	}
	return divergent
}

// ListenerStats are the sums of what the listeners went through.
type ListenerStats struct {
	Frames, Bytes, Repairs, Fetches, Divergences, Losses, Undecodable uint64
}

// Stats returns the sums over all listeners.
func (l *Listeners) Stats() ListenerStats {
	var sum ListenerStats
	for _, one := range l.listeners {
		s := one.session.Stats()
		sum.Frames += s.Frames
		sum.Bytes += s.Bytes
		sum.Repairs += s.Repairs
		sum.Fetches += s.Fetches
		sum.Divergences += s.Divergences
		sum.Losses += s.Losses
		sum.Undecodable += s.Undecodable
	}
	return sum
}

// Close ends all listeners.
func (l *Listeners) Close() {
	_ = parallel(len(l.listeners), func(i int) error {
		if one := l.listeners[i]; one != nil && one.session != nil {
			return one.session.Close()
		}
		return nil
	})
}

// Board turns a fetched body into the ledger's view of a board.
func Board(body *wire.BoardBody) (ledger.Board, error) {
	view := make(ledger.Board, len(body.Chunks))
	for i := range body.Chunks {
		from := &body.Chunks[i]
		chunk := &ledger.Chunk{Sequence: from.Sequence}
		if err := chunk.Tiles.SetImage(from.Image, body.ColourWidth); err != nil {
			return nil, fmt.Errorf("chunk %d of the board: %w", from.Chunk, err)
		}
		view[from.Chunk] = chunk
	}
	return view, nil
}
