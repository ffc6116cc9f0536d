package transport

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/placed-board/placed/board"
	"github.com/placed-board/placed/transport/place2017"
	"github.com/placed-board/placed/wire"
)

const (
	testToken = "operators-test-token-0123456789"
	testEpoch = 0x0123456789abcdef
)

var testKey = []byte("a-session-key-for-tests-of-32-by")

// fakeSystem is the board behind a server under test: one that does nothing but keep what it was told.
type fakeSystem struct {
	mu           sync.Mutex
	conns        map[wire.SessionID]wire.Conn
	users        map[wire.SessionID]board.UserID
	received     []wire.ClientMessage
	connected    int
	disconnected []wire.SessionID
	placed       []board.PlaceRequest
	body         []byte
	bodies       uint64
	bodyReads    int           // calls of BoardBody
	pasts        int           // calls of BoardAt
	pastBlock    chan struct{} // BoardAt waits for it to be closed
	settings     board.SettingsRecord
	bans         []string
	known        []board.UserID // nil: everybody
	adminErr     error          // of Ban, Bans, Backup, Reset
	archive      []byte
	archiveErr   error // after the archive
	resets       []string
	told         func(placed []board.PlacedTile, lost bool)
	jobs         []board.Job
	ready        board.Readiness

	outcome  func(ctx context.Context, r board.PlaceRequest) board.PlaceOutcome
	tileErr  error
	change   func(base uint64, next board.Settings) error
	verify   func(ctx context.Context, progress func(done, total int)) (board.VerifyReport, error)
	greeting wire.ServerMessage // sent on Connect unless nil
}

func newFakeSystem() *fakeSystem {
	f := &fakeSystem{
		conns: map[wire.SessionID]wire.Conn{}, users: map[wire.SessionID]board.UserID{},
		settings: board.SettingsRecord{Settings: board.DefaultSettings(), By: "placed"},
		ready:    board.Readiness{Ready: true, Reasons: []string{}},
		greeting: &wire.Hello{Protocol: wire.Protocol, Epoch: testEpoch, Settings: board.DefaultSettings()},
		outcome: func(_ context.Context, r board.PlaceRequest) board.PlaceOutcome {
			return board.PlaceOutcome{
				Verdict: board.VerdictAccepted, Turn: max(r.Turn, 1), Nonce: r.Nonce, At: r.At, Colour: r.Colour, Chunk: r.At.Chunk(),
				Sequence: 7, WaitMs: 300_000, NextTurn: max(r.Turn, 1) + 1,
			}
		},
	}
	f.publish(1)
	return f
}

// publish makes a new body with one chunk at the sequence.
func (f *fakeSystem) publish(sequence uint64) {
	var tiles board.Tiles
	for i := range tiles {
		tiles[i] = board.Colour((i + int(sequence)) % 16)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bodies++
	f.body = wire.AppendBoard(nil, &wire.BoardBody{
		Epoch: testEpoch, Incarnation: 1, Tick: f.bodies, Width: f.settings.Width, Height: f.settings.Height, ColourWidth: board.Width4,
		Chunks: []wire.BodyChunk{{Chunk: board.NewChunkID(1, 0), Sequence: sequence, Image: tiles.AppendImage(nil, board.Width4)}},
	})
}

func (f *fakeSystem) WatchPlacements(told func(placed []board.PlacedTile, lost bool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = told
}

func (f *fakeSystem) Connect(conn wire.Conn, user board.UserID) wire.SessionID {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.connected++
	id := wire.SessionID(f.connected)
	f.conns[id], f.users[id] = conn, user
	if f.greeting != nil {
		conn.Send(wire.SealServer(f.greeting))
	}
	return id
}

func (f *fakeSystem) Receive(id wire.SessionID, m wire.ClientMessage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.conns[id]; !ok {
		panic("a message of a session that is not connected")
	}
	f.received = append(f.received, m)
}

func (f *fakeSystem) Disconnect(id wire.SessionID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.conns[id]; !ok {
		panic("a session is disconnected twice")
	}
	delete(f.conns, id)
	f.disconnected = append(f.disconnected, id)
}

func (f *fakeSystem) Place(ctx context.Context, r board.PlaceRequest) board.PlaceOutcome {
	f.mu.Lock()
	f.placed = append(f.placed, r)
	f.mu.Unlock()
	return f.outcome(ctx, r)
}

func (f *fakeSystem) UserStatus(_ context.Context, user board.UserID) (board.UserStatus, error) {
	return board.UserStatus{User: user, Turn: 3, WaitMs: 1234}, nil
}

func (f *fakeSystem) BoardBody() ([]byte, uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bodyReads++
	return f.body, f.bodies
}

func (f *fakeSystem) Loaded() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.body != nil
}

func (f *fakeSystem) ChunkImage(c board.ChunkID) (uint64, board.Width, []byte, bool) {
	return 9, board.Width4, make([]byte, board.Width4.ImageBytes()), true
}

func (f *fakeSystem) Tile(_ context.Context, p board.Point) (board.TileDetails, error) {
	return board.TileDetails{X: p.X, Y: p.Y, Colour: 5, Placed: true, User: "ann", AtMs: 99, Kind: "user", Sequence: 3}, f.tileErr
}

// TileHistory knows five placements, whose versions are 5 to 1.
func (f *fakeSystem) TileHistory(_ context.Context, p board.Point, from board.HistoryCursor, limit int) ([]board.HistoryItem, board.HistoryCursor, error) {
	if from.End() {
		from = board.NewestIn(board.Entry{Block: p.Block(), Version: 5})
	}
	if from.Version > 5 || from.Block != p.Block() {
		return nil, from, fmt.Errorf("fake: %w", board.ErrCursor)
	}
	items := []board.HistoryItem{}
	for ; from.Version > 0 && len(items) < limit; from.Version-- {
		items = append(items, board.HistoryItem{X: p.X, Y: p.Y, Colour: 5, User: "ann", AtMs: int64(from.Version), Kind: "user", Sequence: from.Version})
	}
	return items, from, f.tileErr
}

func (f *fakeSystem) UserHistory(ctx context.Context, _ board.UserID, from board.HistoryCursor, limit int) ([]board.HistoryItem, board.HistoryCursor, error) {
	return f.TileHistory(ctx, board.Point{X: 1, Y: 2}, from, limit)
}

// BoardAt is the board with one chunk; it is settled before the year 2001.
func (f *fakeSystem) BoardAt(ctx context.Context, atMs int64) (*board.PastBoard, error) {
	f.mu.Lock()
	f.pasts++
	block, settings := f.pastBlock, f.settings.Settings
	f.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
		}
	}
	tiles := new(board.Tiles)
	tiles[3] = board.Colour(atMs / 1000 % 16)
	return &board.PastBoard{Settings: settings, Chunks: []board.PastChunk{{Sequence: 7, Tiles: tiles}}, Settled: atMs < 978_307_200_000}, f.tileErr
}

func (f *fakeSystem) Heat(_ context.Context, fromMs, toMs int64) (*board.Heat, error) {
	h := &board.Heat{Width: 3, Height: 1, Counts: []uint32{0, 1, uint32(toMs-fromMs) / 60_000}}
	return h, f.tileErr
}

func (f *fakeSystem) Settings() board.SettingsRecord {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.settings
}

func (f *fakeSystem) Epoch() uint64              { return testEpoch }
func (f *fakeSystem) Online() int                { return 17 }
func (f *fakeSystem) Readiness() board.Readiness { return f.ready }

func (f *fakeSystem) SettingsHistory(context.Context) ([]board.SettingsRecord, error) {
	return []board.SettingsRecord{f.Settings()}, nil
}

func (f *fakeSystem) ChangeSettings(_ context.Context, base uint64, next board.Settings, by, why string) (board.SettingsRecord, error) {
	if f.change != nil {
		if err := f.change(base, next); err != nil {
			return board.SettingsRecord{}, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if base != f.settings.Version {
		return board.SettingsRecord{}, board.ErrConflict
	}
	next.Version = base + 1
	f.settings = board.SettingsRecord{Settings: next, By: by, Why: why, AtMs: 1}
	return f.settings, nil
}

func (f *fakeSystem) Ban(_ context.Context, user board.UserID, untilMs int64, by, why string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.adminErr != nil {
		return f.adminErr
	}
	f.bans = append(f.bans, fmt.Sprintf("%s %d %s %s", user, untilMs, by, why))
	return nil
}

// KnownUser knows everybody, unless the test says whom.
func (f *fakeSystem) KnownUser(_ context.Context, user board.UserID) (bool, error) {
	return f.known == nil || slices.Contains(f.known, user), nil
}

func (f *fakeSystem) FindUsers(_ context.Context, match func(board.UserID) bool, limit int) ([]board.UserID, error) {
	var found []board.UserID
	for _, user := range f.known {
		if len(found) < limit && match(user) {
			found = append(found, user)
		}
	}
	return found, nil
}

func (f *fakeSystem) Bans(context.Context) ([]board.Ban, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return []board.Ban{{User: "ann", UntilMs: 5, By: "zoe", Why: "spam", AtMs: 1}}, f.adminErr
}

func (f *fakeSystem) Clear(_ context.Context, rect board.Rect, by, why string) (board.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	job := board.Job{ID: "1", Kind: "clear", By: by, Why: why, Rect: rect}
	f.jobs = append(f.jobs, job)
	return job, nil
}

func (f *fakeSystem) Rollback(_ context.Context, j board.Job) (board.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.adminErr != nil {
		return j, f.adminErr
	}
	j.ID, j.Kind = "2", "rollback"
	f.jobs = append(f.jobs, j)
	return j, nil
}

func (f *fakeSystem) PlanRollback(_ context.Context, j board.Job) (board.RollbackPlan, error) {
	return board.RollbackPlan{
		Job: j, Tiles: 3, Placements: 4, Picture: board.Rect{X: 1, Y: 2, Width: 2, Height: 1}, Colours: []board.Colour{5, 200},
	}, f.adminErr
}

func (f *fakeSystem) Jobs(context.Context) ([]board.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.jobs, nil
}

func (f *fakeSystem) Status(context.Context) board.Status {
	return board.Status{Version: "test", Readiness: f.ready}
}

func (f *fakeSystem) Cluster(context.Context) board.ClusterReport {
	return board.ClusterReport{Node: "h:1", Members: []board.NodeReport{{Address: "h:1", Incarnation: "1", Serving: true}}}
}

func (f *fakeSystem) Regions(context.Context) []board.RegionReport {
	return []board.RegionReport{{Rect: board.Rect{Width: 100, Height: 100}, Owner: "h:1", Placements: 3, PerSecond: 0.5}}
}

func (f *fakeSystem) OthersServe() bool { return false }

func (f *fakeSystem) Verify(ctx context.Context, progress func(done, total int)) (board.VerifyReport, error) {
	if f.verify != nil {
		return f.verify(ctx, progress)
	}
	return board.VerifyReport{}, errors.New("no journals")
}

// state returns counts that tell whether anything reached the board.
func (f *fakeSystem) state() (received, placed int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.received), len(f.placed)
}

// harness is a server over real sockets with the fake behind it.
type harness struct {
	*Server
	t    testing.TB
	fake *fakeSystem
	reg  *prometheus.Registry
	logs *logBuffer
	url  string // of the public listener, without a slash at the end
	adm  string // of the admin listener
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// testConfig listens on free ports and limits nothing by address.
func testConfig() Config {
	cfg := DefaultConfig()
	cfg.Listen, cfg.AdminListen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.AdminToken, cfg.SessionKey = testToken, testKey
	cfg.DrainMove, cfg.Linger = 200*time.Millisecond, 500*time.Millisecond
	return cfg
}

func newServer(t testing.TB, change func(*Config)) (*Server, *fakeSystem, *prometheus.Registry, *logBuffer) {
	t.Helper()
	return newServerWith(t, change, nil)
}

// newServerWith is newServer with other collaborators.
func newServerWith(t testing.TB, change func(*Config), with func(*Deps)) (*Server, *fakeSystem, *prometheus.Registry, *logBuffer) {
	t.Helper()
	cfg := testConfig()
	if change != nil {
		change(&cfg)
	}
	fake, reg, logs := newFakeSystem(), prometheus.NewRegistry(), &logBuffer{}
	deps := Deps{
		Sessions: fake, Placer: fake, Board: fake, Admin: fake, Fleet: fake, Drain: func() {}, History: fake, Past: fake, Exporter: &fakeExporter{text: "ts\n"}, Keeper: fake, Registry: reg,
		Log: slog.New(slog.NewTextHandler(logs, nil)),
	}
	deps.Face = func(host *FaceHost) (Face, error) {
		face := place2017.DefaultConfig()
		face.Key = cfg.SessionKey
		return place2017.New(face, place2017.Deps{Host: host, Board: fake, Placer: fake, Clearer: fake, Watcher: fake, Registry: reg})
	}
	if with != nil {
		with(&deps)
	}
	s, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	return s, fake, reg, logs
}

func start(t testing.TB, change func(*Config)) *harness {
	t.Helper()
	return startWith(t, change, nil)
}

// startWith is start with other collaborators.
func startWith(t testing.TB, change func(*Config), with func(*Deps)) *harness {
	t.Helper()
	s, fake, reg, logs := newServerWith(t, change, with)
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.Background()) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return &harness{Server: s, t: t, fake: fake, reg: reg, logs: logs, url: "http://" + s.Addr().String(), adm: "http://" + s.AdminAddr().String()}
}

// limited takes the loopback exemption away.
func limited(cfg *Config) { cfg.Unlimited = nil }

// eventually waits until the condition holds; it polls, because what it waits for happens in goroutines of the server.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

// count returns the value of the counter or gauge with the labels given as name, value pairs.
func count(t testing.TB, reg *prometheus.Registry, name string, labels ...string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			if hasLabels(metric, labels) {
				return metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("there is no series %s%q", name, labels)
	return 0
}

func hasLabels(metric *dto.Metric, labels []string) bool {
	for i := 0; i < len(labels); i += 2 {
		found := false
		for _, l := range metric.GetLabel() {
			found = found || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
		}
		if !found {
			return false
		}
	}
	return true
}

func (h *harness) count(name string, labels ...string) float64 {
	h.t.Helper()
	return count(h.t, h.reg, name, labels...)
}

// response is an answer read to its end.
type response struct {
	*http.Response
	body []byte
}

// do sends a request with the header lines given as "Name: value" and reads the answer. It follows no redirect, keeps no
// cookie and does not decompress.
func (h *harness) do(method, url, body string, header ...string) response {
	h.t.Helper()
	if !strings.HasPrefix(url, "http") {
		url = h.url + url
	}
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			req.Host = value
			continue
		}
		req.Header.Add(name, value)
	}
	res, err := testClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	answer := response{res, b}
	h.checkDocumented(req, body, answer)
	return answer
}

var testClient = &http.Client{
	Transport:     &http.Transport{DisableCompression: true, DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       20 * time.Second,
}

// login signs in and returns the token.
func (h *harness) token(user string) string {
	return h.signer.seal(board.UserID(user), false, time.Now().Add(time.Hour))
}

// dial opens a session by a real websocket client.
func (h *harness) dial(header ...string) *websocket.Conn {
	h.t.Helper()
	ws, res, err := h.tryDial(header...)
	if err != nil {
		status := 0
		if res != nil {
			status = res.StatusCode
		}
		h.t.Fatalf("dial: %v (status %d)", err, status)
	}
	h.t.Cleanup(func() { ws.Close() })
	return ws
}

func (h *harness) tryDial(header ...string) (*websocket.Conn, *http.Response, error) {
	lines := http.Header{}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		lines.Add(name, value)
	}
	d := websocket.Dialer{HandshakeTimeout: 10 * time.Second, Subprotocols: []string{Subprotocol}}
	return d.Dial("ws"+strings.TrimPrefix(h.url, "http")+"/api/v1/ws", lines)
}

// next reads the next message of the server.
func next(t testing.TB, ws *websocket.Conn) wire.ServerMessage {
	t.Helper()
	ws.SetReadDeadline(time.Now().Add(10 * time.Second))
	kind, b, err := ws.ReadMessage()
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	if kind != websocket.BinaryMessage {
		t.Fatalf("a message of kind %d", kind)
	}
	m, err := wire.DecodeServer(b)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// closeCode reads until the server closes and returns with which code.
func closeCode(t testing.TB, ws *websocket.Conn) int {
	t.Helper()
	ws.SetReadDeadline(time.Now().Add(10 * time.Second))
	for {
		if _, _, err := ws.ReadMessage(); err != nil {
			var closed *websocket.CloseError
			if !errors.As(err, &closed) {
				t.Fatalf("the connection ended without a close: %v", err)
			}
			return closed.Code
		}
	}
}

func send(t testing.TB, ws *websocket.Conn, m wire.ClientMessage) {
	t.Helper()
	if err := ws.WriteMessage(websocket.BinaryMessage, wire.AppendClient(nil, m)); err != nil {
		t.Fatal(err)
	}
}

// rawSession opens a session over a bare connection, for frames that no client library would write.
func rawSession(t testing.TB, nc net.Conn, header ...string) *rawConn {
	t.Helper()
	var request strings.Builder
	request.WriteString("GET /api/v1/ws HTTP/1.1\r\nHost: board.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: " + Subprotocol + "\r\n")
	for _, line := range header {
		request.WriteString(line + "\r\n")
	}
	if _, err := io.WriteString(nc, request.String()+"\r\n"); err != nil {
		t.Fatal(err)
	}
	r := &rawConn{Conn: nc, br: bufio.NewReader(nc)}
	res, err := http.ReadResponse(r.br, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("status %d", res.StatusCode)
	}
	return r
}

func (h *harness) rawDial(header ...string) *rawConn {
	h.t.Helper()
	nc, err := net.Dial("tcp", h.Addr().String())
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { nc.Close() })
	return rawSession(h.t, nc, header...)
}

type rawConn struct {
	net.Conn
	br *bufio.Reader
}

// readFrame reads one frame of the server.
func (r *rawConn) readFrame() (op byte, payload []byte, err error) {
	r.SetReadDeadline(time.Now().Add(10 * time.Second))
	defer r.SetReadDeadline(time.Time{})
	var head [2]byte
	if _, err := io.ReadFull(r.br, head[:]); err != nil {
		return 0, nil, err
	}
	n := int(head[1])
	switch n {
	case 126:
		var b [2]byte
		if _, err := io.ReadFull(r.br, b[:]); err != nil {
			return 0, nil, err
		}
		n = int(binary.BigEndian.Uint16(b[:]))
	case 127:
		var b [8]byte
		if _, err := io.ReadFull(r.br, b[:]); err != nil {
			return 0, nil, err
		}
		n = int(binary.BigEndian.Uint64(b[:]))
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(r.br, payload)
	return head[0], payload, err
}

// closeCode reads frames until a close and returns its code; 0 when it has none, -1 when the connection ended without.
func (r *rawConn) closeCode() int {
	for {
		op, payload, err := r.readFrame()
		switch {
		case err != nil:
			return -1
		case op == opClose && len(payload) >= 2:
			return int(binary.BigEndian.Uint16(payload))
		case op == opClose:
			return 0
		}
	}
}

// frame returns a client's frame with a mask of zeros: bits are FIN, RSV and opcode.
func frame(bits byte, payload []byte) []byte {
	b := []byte{bits}
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	return append(append(b, 0, 0, 0, 0), payload...)
}

// tryNew builds a server with the fake and throws it away.
func tryNew(cfg Config) error {
	fake := newFakeSystem()
	_, err := New(cfg, Deps{
		Sessions: fake, Placer: fake, Board: fake, Admin: fake, Fleet: fake, History: fake, Past: fake, Keeper: fake, Registry: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
	})
	return err
}

// Backup implements Keeper.
func (f *fakeSystem) Backup(_ context.Context, w io.Writer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.adminErr != nil {
		return f.adminErr
	}
	if _, err := w.Write(append([]byte("tar"), f.archive...)); err != nil {
		return err
	}
	return f.archiveErr
}

// Reset implements Keeper.
func (f *fakeSystem) Reset(_ context.Context, by, why string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resets = append(f.resets, by+" "+why)
	return f.adminErr
}
