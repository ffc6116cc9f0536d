package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/store"
)

// SettingsHistory returns every version of the settings, ascending, with who made it, when and why.
func (s *System) SettingsHistory(ctx context.Context) ([]board.SettingsRecord, error) {
	return readSettings(ctx, s.store, 1)
}

// ChangeSettings makes a new version on top of version base: board.ErrConflict with the newest record when base is not the
// newest, or what is wrong with next.
func (s *System) ChangeSettings(ctx context.Context, base uint64, next board.Settings, by, why string) (board.SettingsRecord, error) {
	type answer struct {
		record board.SettingsRecord
		err    error
	}
	answers := make(chan answer, 1)
	s.root.Send(s.post.settings, ChangeSettings{Base: base, Next: next, By: by, Why: why, Reply: func(r board.SettingsRecord, err error) {
		offer(answers, answer{r, err})
	}})
	select {
	case a := <-answers:
		return a.record, a.err
	case <-ctx.Done():
		return board.SettingsRecord{}, fmt.Errorf("actors: %w: %w", board.ErrUnknown, ctx.Err())
	}
}

// Ban bans a user until a time in Unix milliseconds; 0 takes the ban back. Who, when and why are kept in the user's row.
// Charges that are open still land.
func (s *System) Ban(ctx context.Context, user board.UserID, untilMs int64, by, why string) error {
	answers := make(chan board.PlaceOutcome, 1)
	to, done := s.wait(waiter{outcome: func(o board.PlaceOutcome) { offer(answers, o) }})
	defer done()
	note, err := s.banNote(by, why)
	if err != nil {
		return err
	}
	s.post.toUser(user, SetBan{User: user, UntilMs: untilMs, Note: note, ReplyTo: to})
	select {
	case o := <-answers:
		switch o.Verdict {
		case board.VerdictAccepted:
			s.log.Info("ban changed", "user", string(user), "until_ms", untilMs, "by", by, "why", why)
			return nil
		case board.VerdictRefused:
			if o.Code == board.CodeStore {
				return errors.New("actors: ban: the user's row cannot be read")
			}
			return fmt.Errorf("actors: ban: %w: %s", board.ErrRefused, o.Code.Refusal().Sentence)
		case board.VerdictCharged, board.VerdictUnknown:
		}
		return fmt.Errorf("actors: ban: %w", board.ErrUnknown)
	case <-ctx.Done():
		return fmt.Errorf("actors: %w: %w", board.ErrUnknown, ctx.Err())
	}
}

// banNote returns the audit of a ban; it refuses what a row has no room for.
func (s *System) banNote(by, why string) (*store.BanNote, error) {
	who, err := board.ParseUserID(by)
	if err != nil {
		return nil, fmt.Errorf("actors: ban: %w: by: %w", board.ErrRefused, err)
	}
	if len(why) > board.WhyBytesMax {
		return nil, fmt.Errorf("actors: ban: %w: a reason of %d bytes, at most %d", board.ErrRefused, len(why), board.WhyBytesMax)
	}
	wallMs, _ := s.guard.now()
	return &store.BanNote{By: who, Why: why, AtMs: wallMs}, nil
}

// BansListedMax is how many bans, lifted and ended ones included, a listing names: the newest.
const BansListedMax = 10_000

// Bans returns the newest ban of each user, lifted and ended ones included, the newest first. It reads every user's row.
func (s *System) Bans(ctx context.Context) ([]board.Ban, error) {
	var out []board.Ban
	err := s.eachBan(ctx, func(ban board.Ban) { out = append(out, ban) }, func() {
		slices.SortFunc(out, func(a, b board.Ban) int { return cmp.Or(cmp.Compare(b.AtMs, a.AtMs), cmp.Compare(a.User, b.User)) })
		out = out[:min(len(out), BansListedMax)]
	})
	return out, err
}

// BansInForce returns every ban that still holds, however many there are.
func (s *System) BansInForce(ctx context.Context) ([]board.Ban, error) {
	nowMs, _ := s.guard.now()
	var out []board.Ban
	err := s.eachBan(ctx, func(ban board.Ban) {
		if ban.UntilMs > nowMs {
			out = append(out, ban)
		}
	}, func() {})
	return out, err
}

// eachBan visits the bans of all users, lifted and ended ones included, and tells when it is through with a shard.
func (s *System) eachBan(ctx context.Context, visit func(board.Ban), shardDone func()) error {
	for shard := range board.UserShards {
		for row, err := range s.store.Rows(ctx, store.Shard(shard)) {
			if err != nil {
				return fmt.Errorf("actors: list bans: %w", err)
			}
			r, err := store.DecodeUserRow(row.Value)
			if err != nil {
				return fmt.Errorf("actors: list bans: user %q: %w", row.Key, err)
			}
			ban := board.Ban{User: board.UserID(row.Key), UntilMs: r.BannedUntilMs}
			if n := r.BanNote; n != nil {
				ban.By, ban.Why, ban.AtMs = n.By, n.Why, n.AtMs
			} else if ban.UntilMs == 0 {
				continue // never banned
			}
			visit(ban)
		}
		shardDone()
	}
	return nil
}

// Clear starts a job that sets every tile of the rectangle that differs to colour 0.
func (s *System) Clear(ctx context.Context, rect board.Rect, by, why string) (board.Job, error) {
	rect, err := s.clip(rect)
	if err != nil {
		return board.Job{}, err
	}
	if _, err := board.ParseUserID(by); err != nil {
		return board.Job{}, fmt.Errorf("actors: clear: %w: by: %w", board.ErrRefused, err)
	}
	wallMs, _ := s.guard.now()
	return s.startJob(ctx, board.Job{Kind: board.KindClear.String(), By: by, Why: why, Rect: rect, AtMs: wallMs})
}

// startJob waits until a job is durable.
func (s *System) startJob(ctx context.Context, job board.Job) (board.Job, error) {
	type answer struct {
		job board.Job
		err error
	}
	answers := make(chan answer, 1)
	s.post.toShard(board.OpsShard, StartJob{Job: job, Reply: func(j board.Job, err error) { offer(answers, answer{j, err}) }})
	select {
	case a := <-answers:
		return a.job, a.err
	case <-ctx.Done():
		return job, fmt.Errorf("actors: %w: %w", board.ErrUnknown, ctx.Err())
	}
}

// clip returns the part of a rectangle that lies on the board.
func (s *System) clip(r board.Rect) (board.Rect, error) {
	b := s.post.rules.Load().Settings().Bounds()
	if r.Width < 1 || r.Height < 1 || r.X < 0 || r.Y < 0 || !r.Meets(b) {
		return r, fmt.Errorf("actors: %w: the rectangle (%d,%d %dx%d) does not lie on the board", board.ErrRefused, r.X, r.Y, r.Width, r.Height)
	}
	r.Width, r.Height = min(r.Width, b.Width-r.X), min(r.Height, b.Height-r.Y)
	return r, nil
}

// Jobs returns the operators' jobs, the newest first.
func (s *System) Jobs(ctx context.Context) ([]board.Job, error) {
	answers := make(chan []board.Job, 1)
	s.post.toShard(board.OpsShard, GetJobs{Reply: func(j []board.Job) { offer(answers, j) }})
	select {
	case j := <-answers:
		return j, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Status returns what an operator wants to know of this node at a glance.
func (s *System) Status(context.Context) board.Status {
	rules := s.post.rules.Load()
	st := board.Status{
		Version: s.config.Version, Epoch: fmt.Sprintf("%016x", s.meta.Epoch), Incarnation: fmt.Sprintf("%016x", s.node.Incarnation),
		Store: s.store.Capabilities().Name, Readiness: s.Readiness(), Sessions: s.people.connections(), Online: s.Online(),
		SettingsVersion: rules.Version(), InForce: true, OpenCharges: s.openCharges(), Regions: len(s.post.allRegions()),
		Blocks: int(s.blocks.Load()), Users: int(s.users.Load()), Counters: map[string]int64{},
	}
	older := 0
	s.state.mu.Lock()
	for i, version := range s.state.shards {
		st.ShardsInForce = append(st.ShardsInForce, version)
		st.InForce = st.InForce && version == rules.Version()
		older += s.state.older[i]
	}
	s.state.mu.Unlock()
	st.FrozenFully = rules.Settings().Frozen && st.InForce && older == 0
	total := s.subscriberTotals()
	st.Counters["sends"], st.Counters["send_bytes"] = total.Sends, total.SendBytes
	st.Counters["lags"], st.Counters["recoveries"] = total.Lags, total.Recoveries
	st.Counters["notes_dropped"], st.Counters["repairs"] = total.NotesDropped, total.Repairs
	st.Counters["resumes"], st.Counters["ticks"] = total.Resumes, int64(s.tick.Load())
	return st
}

// Verify replays every block's journal and checks I1 to I6 by formula, against the settings' versions, the shards' rows and
// the board that this node serves.
func (s *System) Verify(ctx context.Context, progress func(done, total int)) (board.VerifyReport, error) {
	return store.Verify(ctx, s.store, store.VerifyOptions{
		Settings: func(ctx context.Context) ([]board.SettingsRecord, error) { return readSettings(ctx, s.store, 1) },
		Progress: progress,
		Served: func(c board.ChunkID) (uint64, *board.Tiles, bool) {
			image, ok := s.chunk(ctx, c)
			return image.Sequence, image.Tiles, ok
		},
	})
}

// subscriberCounted keeps a subscriber's counters where metrics and status read them.
func (s *System) subscriberCounted(index int, core *Subscriber) {
	c := core.Counters()
	c.lagging = int64(core.Lagging())
	s.counted[index].Store(&c)
}

func (s *System) subscriberTotals() SubscriberCounters {
	var t SubscriberCounters
	for i := range s.counted {
		if c := s.counted[i].Load(); c != nil {
			t.add(c)
		}
	}
	return t
}

func (t *SubscriberCounters) add(c *SubscriberCounters) {
	t.Sends += c.Sends
	t.SendBytes += c.SendBytes
	t.Lags += c.Lags
	t.Recoveries += c.Recoveries
	t.NotesDropped += c.NotesDropped
	t.Repairs += c.Repairs
	t.Resumes += c.Resumes
	t.lagging += c.lagging
}

// registerGauges exports what is read when it is asked for.
func (s *System) registerGauges(r prometheus.Registerer) {
	gauge := func(name, help string, read func() float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
	}
	counter := func(name, help string, read func(SubscriberCounters) int64) {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 {
			return float64(read(s.subscriberTotals()))
		}))
	}
	r.MustRegister(newRegionRates(s.Regions, s.node.Address))
	gauge("placed_user_actors", "User actors alive.", func() float64 { return float64(s.users.Load()) })
	gauge("placed_regions", "Region actors alive.", func() float64 { return float64(len(s.post.allRegions())) })
	gauge("placed_blocks", "Blocks loaded.", func() float64 { return float64(s.blocks.Load()) })
	gauge("placed_online", "People connected.", func() float64 { return float64(s.Online()) })
	gauge("placed_store_queue_depth", "Partitions that wait for a store slot.", func() float64 { return float64(s.storing.slots.queued()) })
	gauge("placed_config_cooldown_seconds", "Cooldown of the newest settings.", func() float64 {
		return float64(s.Settings().CooldownMs) / 1000
	})
	gauge("placed_board_width", "Width of the board in tiles.", func() float64 { return float64(s.Settings().Width) })
	gauge("placed_board_height", "Height of the board in tiles.", func() float64 { return float64(s.Settings().Height) })
	gauge("placed_ws_lagging_sessions", "Sessions that wait for their sockets.", func() float64 { return float64(s.subscriberTotals().lagging) })
	counter("placed_ws_lags_total", "Times that a session's socket was full.", func(c SubscriberCounters) int64 { return c.Lags })
	counter("placed_ws_recoveries_total", "Times that a lagging session was brought back to date.", func(c SubscriberCounters) int64 { return c.Recoveries })
	counter("placed_ws_notes_dropped_total", "Answers dropped because a socket stayed full.", func(c SubscriberCounters) int64 { return c.NotesDropped })
	counter("placed_resync_requests_total", "Repairs asked for by clients.", func(c SubscriberCounters) int64 { return c.Repairs })
	counter("placed_resumes_total", "Resumes asked for by clients.", func(c SubscriberCounters) int64 { return c.Resumes })
}
