// The session against a node of a few lines, on a clock that the tests move: connecting, loading, gaps, repairs, resumes,
// silence, backoff, heartbeats that disagree, settings, and placements through every answer.

import assert from "node:assert/strict";
import { test } from "node:test";
import { boardChunks, chunkID, chunkOf, tileIndex, type ChunkRect } from "../src/grid.ts";
import { wordText, type Word } from "../src/hash.ts";
import { Code } from "../src/refusals.ts";
import { ARM_MS_MAX, Session, type LinkEvents, type PlaceResult } from "../src/session.ts";
import type { Settings } from "../src/settings.ts";
import type { BoardBody, ClientMessage, Hello, Placed, ServerMessage } from "../src/wire.ts";
import { Model } from "./model.ts";
import { seeded, TestClock } from "./support.ts";

const SETTINGS: Settings = {
  version: 1, width: 200, height: 150, cooldownMs: 60_000, frozen: false, announcement: "", loading: false,
  palette: Array.from({ length: 16 }, (_, i) => ({ name: `c${i}`, rgb: i, closed: i === 15 })),
};

/** A session, the node it talks to, and everything that was said. */
class Bench {
  readonly clock = new TestClock();
  readonly model = new Model(seeded(11));
  readonly sent: ClientMessage[] = [];
  readonly told: string[] = [];
  readonly refused: (number | string)[] = [];
  readonly session: Session;
  settings = SETTINGS;
  user = "ann";
  me: Hello["me"] = { turn: 1, waitMs: 0 };
  links = 0;
  random = 0.5;
  hold = false; // board bodies wait for release
  bodies: { fresh: boolean; body: BoardBody; give: (b: BoardBody) => void; fail: () => void }[] = [];
  #events: LinkEvents | null = null;
  #nonce = 0;

  constructor() {
    this.model.placeSome(300, this.scope());
    this.session = new Session(
      {
        clock: this.clock,
        connect: (events) => {
          this.links++;
          this.#events = events;
          return {
            send: (m) => {
              if (this.#events === events) this.sent.push(m);
            },
            close: () => {
              if (this.#events === events) this.#events = null;
            },
          };
        },
        fetchBoard: (fresh) =>
          new Promise((resolve, reject) => {
            const fetch = { fresh, body: this.model.body(), give: resolve, fail: () => reject(new Error("away")) };
            if (this.hold) this.bodies.push(fetch);
            else resolve(fetch.body);
          }),
        random: () => this.random,
        nonce: () => ({ hi: 0, lo: ++this.#nonce }),
      },
      {
        state: (s) => this.told.push(s.kind),
        settings: () => {},
        me: () => {},
        online: () => {},
        pending: () => {},
        accepted: (p) => this.told.push(`accepted ${p.x},${p.y}`),
        refused: (_, code) => this.refused.push(code),
        placedElsewhere: (m) => this.told.push(`elsewhere ${m.x},${m.y}`),
      },
    );
  }

  scope(): ChunkRect {
    return boardChunks(this.settings.width, this.settings.height);
  }

  get kind(): string {
    return this.session.state.kind;
  }

  get events(): LinkEvents {
    return this.#events!;
  }

  get connected(): boolean {
    return this.#events !== null;
  }

  receive(m: ServerMessage): void {
    assert.ok(this.#events !== null, "the session has no link");
    this.#events.message(m);
  }

  close(code = 1006): void {
    const events = this.#events;
    this.#events = null;
    events!.closed(code);
  }

  hello(): void {
    const { epoch, incarnation, tick } = this.model;
    this.receive({
      type: "hello", epoch, incarnation, tick, serverTimeMs: 1_790_000_000_000 + this.clock.now(), heartbeatMs: 10_000, user: this.user,
      me: this.me, settings: this.settings,
    });
  }

  base(resumed = false): void {
    this.receive({ type: "base", tick: this.model.tick, resumed, chunks: resumed ? [] : this.model.base() });
  }

  frame(): void {
    this.receive(this.model.frame());
  }

  heartbeat(): void {
    const h = this.model.hashes(this.session.board.scope);
    this.receive({ type: "heartbeat", tick: this.model.tick, serverTimeMs: 1_790_000_000_000 + this.clock.now(), online: 3, ...h });
  }

  last<T extends ClientMessage["type"]>(type: T): Extract<ClientMessage, { type: T }> {
    const m = this.sent.filter((s) => s.type === type).at(-1);
    assert.ok(m !== undefined, `no ${type} was sent`);
    return m as Extract<ClientMessage, { type: T }>;
  }

  count(type: ClientMessage["type"]): number {
    return this.sent.filter((m) => m.type === type).length;
  }

  /** How long the session waits before it connects again. */
  waitMs(): number {
    const s = this.session.state;
    assert.ok(s.kind === "waiting", `it is ${s.kind}`);
    return s.untilMs - this.clock.now();
  }

  /** Connects and goes live. */
  async live(): Promise<void> {
    this.session.connect();
    this.hello();
    this.base();
    await settled();
    this.clock.pass(2000); // the hashes of the new board are computed meanwhile
    assert.equal(this.kind, "live");
  }

  assertConverged(): void {
    assert.equal(this.kind, "live");
    assert.deepEqual(this.session.board.hashes(), this.model.hashes(this.session.board.scope));
  }

  answer(place: Extract<ClientMessage, { type: "place" }>, change: Partial<Placed>): void {
    this.receive({
      type: "placed", verdict: "accepted", code: 0, turn: place.turn, nonce: place.nonce, x: place.x, y: place.y, colour: place.colour,
      trueColour: false, chunk: 0, sequence: 0, waitMs: 0, nextTurn: 0, ...change,
    });
  }

  /** The node puts a placement on its board and says so; the frame follows when the test wants it. */
  accept(place: Extract<ClientMessage, { type: "place" }>): void {
    const chunk = chunkOf(place.x, place.y);
    const sequence = this.model.place(chunk, tileIndex(place.x, place.y), place.colour);
    this.answer(place, { chunk, sequence, waitMs: 60_000, nextTurn: place.turn + 1 });
  }
}

/** Lets promises run. */
async function settled(): Promise<void> {
  for (let i = 0; i < 5; i++) await Promise.resolve();
}

const OK: PlaceResult = { ok: true, armed: false };

test("connects, subscribes, loads and goes live", async () => {
  const b = new Bench();
  b.session.connect();
  assert.equal(b.kind, "connecting");
  b.hello();
  assert.deepEqual(b.sent, [{ type: "subscribe", chunks: null, resume: null }]);
  assert.equal(b.kind, "loading");
  b.base();
  await settled();
  b.assertConverged();
  assert.equal(b.session.user, "ann");
});

test("frames that come while the board is on its way are kept, and gaps repaired", async () => {
  const b = new Bench();
  b.hold = true;
  b.session.connect();
  b.hello();
  const old = b.model.body(); // a cache's copy, older than the base
  b.model.placeSome(60, b.scope());
  b.base();
  b.model.placeSome(60, b.scope());
  b.frame();
  assert.equal(b.kind, "loading");
  b.bodies[0]!.give(old);
  await settled();
  assert.equal(b.kind, "catchingUp");
  b.receive(b.model.repair(b.last("repair").chunks));
  b.assertConverged();
});

test("a board of another epoch is fetched again past the caches, and so is one that cannot be had", async () => {
  const b = new Bench();
  b.hold = true;
  b.session.connect();
  b.hello();
  b.base();
  b.bodies[0]!.give({ ...b.bodies[0]!.body, epoch: { hi: 9, lo: 9 } });
  await settled();
  b.clock.pass(2000);
  assert.equal(b.bodies[1]!.fresh, true);
  b.bodies[1]!.fail();
  await settled();
  b.clock.pass(2000);
  b.bodies[2]!.give(b.bodies[2]!.body);
  await settled();
  b.assertConverged();
});

test("repairs are asked for a hundred chunks at a time, and again when no answer comes", async () => {
  const b = new Bench();
  b.settings = { ...SETTINGS, width: 1000, height: 1000 };
  b.hold = true;
  b.model.placeSome(3000, b.scope());
  b.session.connect();
  b.hello();
  b.base();
  b.bodies[0]!.give({ ...b.bodies[0]!.body, chunks: [] });
  await settled();
  assert.equal(b.last("repair").chunks.length, 100);
  b.clock.pass(1000);
  assert.equal(b.count("repair"), 4, "the next hundreds follow within the node's limit");
  b.clock.pass(10_000);
  b.heartbeat();
  assert.ok(b.count("repair") > 4, "asked again");
  const asked = new Map(b.sent.flatMap((m) => (m.type === "repair" ? m.chunks.map((c) => [c.chunk, c] as const) : [])));
  b.receive(b.model.repair([...asked.values()]));
  b.assertConverged();
});

test("resumes where it was: no board is fetched, frames that come twice count once", async () => {
  const b = new Bench();
  await b.live();
  b.model.placeSome(40, b.scope());
  const first = b.model.frame();
  b.receive(first);
  b.model.placeSome(40, b.scope());
  const second = b.model.frame();
  b.receive(second);
  b.close();
  assert.equal(b.kind, "waiting");
  b.model.placeSome(40, b.scope());
  const missed = b.model.frame();
  b.clock.pass(1000);
  assert.equal(b.links, 2);
  b.hello();
  const resume = b.last("subscribe").resume;
  assert.equal(resume?.tick, first.tick, "the tick before the newest: that one may have come in parts");
  b.receive(second);
  b.receive(missed);
  b.base(true);
  b.assertConverged();
  assert.equal(b.bodies.length, 0);
});

test("a resume that the node cannot serve compares with the base and repairs", async () => {
  const b = new Bench();
  await b.live();
  b.close();
  b.model.placeSome(40, b.scope());
  b.clock.pass(1000);
  b.hello();
  assert.notEqual(b.last("subscribe").resume, null);
  b.base();
  assert.equal(b.kind, "catchingUp");
  b.receive(b.model.repair(b.last("repair").chunks));
  b.assertConverged();
});

test("a restarted node is caught up with without a fetch; another board is loaded anew", async () => {
  const b = new Bench();
  await b.live();
  b.close(1012);
  b.model.incarnation = { hi: 8, lo: 8 };
  b.model.tick = 1; // ticks begin anew
  b.model.placeSome(40, b.scope());
  b.clock.pass(1000);
  b.hello();
  assert.equal(b.last("subscribe").resume, null);
  b.base();
  b.receive(b.model.repair(b.last("repair").chunks));
  b.assertConverged();
  b.model.placeSome(5, b.scope());
  b.frame();
  b.assertConverged();

  b.close();
  b.model.epoch = { hi: 77, lo: 7 };
  b.model.logs.clear();
  b.model.told.clear();
  b.model.placeSome(10, b.scope());
  b.clock.pass(1000);
  b.hello();
  assert.equal(b.session.hasBoard, false);
  b.base();
  await settled();
  b.assertConverged();
});

test("waits longer after each failure, spread by chance, and anew after a link that held", async () => {
  const b = new Bench();
  b.random = 0.999;
  b.session.connect();
  const waits: number[] = [];
  for (let i = 0; i < 8; i++) {
    b.close();
    waits.push(Math.round(b.waitMs() / 1000));
    b.clock.pass(b.waitMs());
    assert.ok(b.connected);
  }
  assert.deepEqual(waits, [1, 2, 4, 8, 16, 30, 30, 30]);
  b.hello();
  b.base();
  await settled();
  for (let i = 0; i < 4; i++) {
    b.clock.pass(9000);
    b.heartbeat();
  }
  b.close();
  assert.ok(b.waitMs() <= 1000);
  b.random = 0;
  b.clock.pass(1000);
  b.close();
  assert.equal(b.waitMs(), 0);
  b.clock.pass(0);
  assert.ok(b.connected, "full jitter reaches down to nothing");
});

test("a person may retry at once; a node that asks to go elsewhere or is full is heeded", async () => {
  const b = new Bench();
  await b.live();
  b.close();
  b.session.retryNow();
  assert.equal(b.links, 2);
  b.hello();
  b.base();
  await settled();
  b.receive({ type: "move", withinMs: 10_000 });
  assert.equal(b.connected, false);
  b.clock.pass(5000);
  assert.equal(b.links, 3);
  b.close(1013);
  assert.equal(b.waitMs(), 15_000);
  b.clock.pass(15_000);
  b.close(4002);
  assert.equal(b.kind, "stopped");
  b.clock.pass(1e6);
  assert.equal(b.links, 4);
});

test("a link that is silent for two and a half heartbeats is given up, also before hello", async () => {
  const b = new Bench();
  await b.live();
  b.heartbeat();
  b.clock.pass(24_900);
  assert.equal(b.kind, "live");
  b.clock.pass(200);
  assert.equal(b.kind, "waiting");
  b.clock.pass(2000);
  assert.equal(b.links, 2);
  b.clock.pass(13_600);
  assert.equal(b.kind, "waiting");
});

test("parks when nobody looks, wakes, and after a sleep does not trust the old link", async () => {
  const b = new Bench();
  await b.live();
  b.session.park();
  assert.equal(b.connected, false);
  b.clock.pass(1e6);
  assert.equal(b.links, 1);
  b.session.wake();
  assert.equal(b.links, 2);
  b.hello();
  b.base(true);
  b.session.wake();
  assert.equal(b.links, 2, "a healthy link is kept");
  b.clock.sleep(60_000);
  b.session.wake();
  assert.equal(b.links, 3);
});

test("heartbeats that agree ask for nothing; one that does not finds and heals the chunk", async () => {
  const b = new Bench();
  await b.live();
  b.heartbeat();
  assert.equal(b.count("getHashes"), 0);
  // A tile goes wrong in memory.
  const chunk = b.model.chunksAt()[0]!.chunk;
  const tiles = b.session.board.tilesOf(chunk) as Uint8Array;
  const wrong = { ...b.model.body() };
  tiles[1234] = 7;
  b.session.board.load(wrong); // no effect: not newer
  b.model.told.set(chunk, b.model.sequence(chunk));
  const h = b.model.hashes(b.session.board.scope);
  b.receive({ type: "heartbeat", tick: b.model.tick, serverTimeMs: 0, online: 1, tiles: { hi: h.tiles.hi, lo: (h.tiles.lo ^ 1) >>> 0 }, sequences: h.sequences });
  assert.equal(b.session.divergences, 1);
  const rect = b.last("getHashes").chunks;
  const hashes = b.model.chunkHashes(rect).map((c) => (c.chunk === chunk ? { ...c, tiles: { hi: 1, lo: 1 } as Word } : c));
  b.receive({ type: "chunkHashes", tick: b.model.tick, chunks: hashes });
  assert.equal(b.kind, "catchingUp");
  assert.deepEqual(b.last("repair").chunks, [{ chunk, sequence: 0 }]);
  b.receive(b.model.repair(b.last("repair").chunks));
  b.assertConverged();
  assert.equal(b.session.board.tilesOf(chunk)![1234], b.model.tiles(chunk)[1234]);
  b.heartbeat();
  assert.equal(b.session.divergences, 1);
});

test("a heartbeat whose sequences alone differ is not believed either", async () => {
  const b = new Bench();
  await b.live();
  const h = b.model.hashes(b.session.board.scope);
  b.receive({ type: "heartbeat", tick: b.model.tick, serverTimeMs: 0, online: 1, tiles: h.tiles, sequences: { hi: 5, lo: 5 } });
  assert.equal(b.count("getHashes"), 1);
});

test("a promised tile that a newer one of the same user has passed is let go without a word", async () => {
  const b = new Bench();
  await b.live();
  b.session.place(60, 60, 4);
  b.answer(b.last("place"), { verdict: "charged", waitMs: 0, nextTurn: 2 });
  b.answer(b.last("place"), { verdict: "refused", code: Code.superseded, nextTurn: 3 });
  assert.equal(b.session.pending.all.length, 0);
  assert.deepEqual(b.refused, []);
});

test("hashes of a wide board are asked for in pieces that the node takes", async () => {
  const b = new Bench();
  b.settings = { ...SETTINGS, width: 1900, height: 2000 };
  await b.live();
  b.receive({ type: "heartbeat", tick: 1, serverTimeMs: 0, online: 1, tiles: { hi: 1, lo: 2 }, sequences: { hi: 0, lo: 0 } });
  let chunks = 0;
  for (let i = 1; b.count("getHashes") === i; i++) {
    const { cols, rows } = b.last("getHashes").chunks;
    assert.ok(cols * rows <= 400);
    chunks += cols * rows;
    b.receive({ type: "chunkHashes", tick: 1, chunks: b.model.chunkHashes(b.last("getHashes").chunks) });
  }
  assert.equal(chunks, 38 * 40);
});

test("a board that grows takes in what comes with repairs; one that shrinks forgets; nothing is subscribed anew", async () => {
  const b = new Bench();
  await b.live();
  const change = (width: number) => {
    b.settings = { ...b.settings, version: b.settings.version + 1, width };
    b.receive({ type: "settingsChanged", tick: b.model.tick, settings: b.settings });
  };
  const beyond = chunkID(6, 0);
  for (let i = 0; i < 9; i++) b.model.place(beyond, i, 3);
  b.frame(); // is ignored: that chunk does not meet the board
  change(400);
  b.model.told.set(beyond, 0);
  b.receive(b.model.frame(true));
  b.model.place(beyond, 20, 4);
  b.frame();
  b.assertConverged();
  assert.equal(b.session.board.tilesOf(beyond)![20], 4);
  change(200);
  assert.equal(b.session.board.tilesOf(beyond), null);
  assert.equal(b.count("subscribe"), 1);
  // Grown while away: the resume would not have its chunks.
  b.close();
  b.settings = { ...b.settings, width: 400 };
  b.clock.pass(1000);
  b.hello();
  assert.equal(b.last("subscribe").resume, null);
  b.close(); // before the base
  b.clock.pass(1000);
  b.hello();
  assert.equal(b.last("subscribe").resume, null, "no base has spoken of those chunks yet");
  b.base();
  b.receive(b.model.repair(b.last("repair").chunks));
  b.assertConverged();
});

test("a board too large to be sent whole is followed in view and loaded by repairs", async () => {
  const b = new Bench();
  b.settings = { ...SETTINGS, width: 10_000, height: 10_000 };
  const view = { col: 0, row: 0, cols: 3, rows: 2 };
  b.session.follow(view);
  b.session.connect();
  b.hello();
  assert.deepEqual(b.last("subscribe").chunks, view);
  b.base();
  b.receive(b.model.repair(b.last("repair").chunks));
  b.assertConverged();
  assert.equal(b.bodies.length, 0);
  b.session.follow({ col: 1, row: 1, cols: 3, rows: 2 });
  assert.equal(b.last("subscribe").chunks?.col, 1);
  b.base();
  b.receive(b.model.repair(b.last("repair").chunks));
  b.assertConverged();
});

test("a placement is shown until its sequence number is applied", async () => {
  const b = new Bench();
  await b.live();
  assert.deepEqual(b.session.place(60, 60, 4), OK);
  const place = b.last("place");
  assert.deepEqual({ ...place, nonce: wordText(place.nonce) }, { type: "place", turn: 1, nonce: "0000000000000001", x: 60, y: 60, colour: 4 });
  b.accept(place);
  assert.equal(b.session.pending.all.length, 1, "accepted, but not drawn yet");
  assert.ok(b.told.includes("accepted 60,60"));
  assert.equal(b.session.cooldown.leftMs(), 60_000);
  b.frame();
  assert.equal(b.session.pending.all.length, 0);
  assert.equal(b.session.board.colourAt(60, 60), 4);
  assert.deepEqual(b.session.place(61, 60, 4), { ok: false, code: Code.cooldown });
  b.clock.pass(20_000);
  b.heartbeat();
  b.clock.pass(20_000);
  b.heartbeat();
  b.clock.pass(20_000);
  assert.deepEqual(b.session.place(61, 60, 4), OK);
  assert.equal(b.last("place").turn, 2);
});

test("a frame that comes before its acceptance settles it too", async () => {
  const b = new Bench();
  await b.live();
  b.session.place(60, 60, 4);
  const place = b.last("place");
  const chunk = chunkOf(60, 60);
  const sequence = b.model.place(chunk, tileIndex(60, 60), 4);
  b.frame();
  b.answer(place, { chunk, sequence, waitMs: 60_000, nextTurn: 2 });
  assert.equal(b.session.pending.all.length, 0);
});

test("a refusal takes the mark away, says why, and leaves the board as it is", async () => {
  const b = new Bench();
  await b.live();
  const before = b.session.board.colourAt(60, 60);
  b.session.place(60, 60, 4);
  b.answer(b.last("place"), { verdict: "refused", code: Code.protected, nextTurn: 1 });
  assert.equal(b.session.pending.all.length, 0);
  assert.deepEqual(b.refused, [Code.protected]);
  assert.equal(b.session.board.colourAt(60, 60), before);
  assert.equal(b.session.cooldown.leftMs(), 0);
  b.session.place(60, 60, 4);
  b.answer(b.last("place"), { verdict: "refused", code: Code.cooldown, waitMs: 7000, nextTurn: 5 });
  assert.equal(b.session.cooldown.leftMs(), 7000);
  b.clock.pass(7000);
  b.session.place(60, 60, 4);
  assert.equal(b.last("place").turn, 5);
});

test("without an answer the same placement is sent again, over a new connection as well", async () => {
  const b = new Bench();
  await b.live();
  b.session.place(60, 60, 4);
  const first = b.last("place");
  b.clock.pass(5000);
  assert.deepEqual(b.sent.filter((m) => m.type === "place"), [first, first]);
  b.answer(first, { verdict: "unknown", waitMs: 2000 });
  b.clock.pass(1999);
  assert.equal(b.count("place"), 2);
  b.clock.pass(1);
  assert.equal(b.count("place"), 3);
  b.close();
  b.clock.pass(1000);
  b.hello();
  assert.equal(b.count("place"), 4);
  assert.deepEqual(b.last("place"), first);
  b.base(true);
  b.answer(first, { verdict: "charged", waitMs: 60_000, nextTurn: 2 });
  assert.equal(b.session.pending.unsettled?.state, "charged");
  assert.deepEqual(b.session.place(1, 1, 1), { ok: false, code: "unsettled" });
  b.answer(first, { verdict: "refused", code: Code.busy, waitMs: 100 });
  b.answer(first, { verdict: "refused", code: Code.cooldown, waitMs: 100 });
  assert.equal(b.session.pending.all.length, 1, "what is promised is not taken back");
  b.accept(first);
  b.frame();
  assert.equal(b.session.pending.all.length, 0);
  assert.deepEqual(b.refused, []);
});

test("a busy node is asked three times more, then its sentence is told", async () => {
  const b = new Bench();
  await b.live();
  b.session.place(60, 60, 4);
  for (let i = 0; i < 4; i++) {
    assert.equal(b.count("place"), i + 1);
    assert.deepEqual(b.refused, []);
    b.answer(b.last("place"), { verdict: "refused", code: Code.busy, waitMs: 1000 });
    b.clock.pass(1500);
  }
  assert.deepEqual(b.refused, [Code.busy]);
  assert.equal(b.count("place"), 4);
});

test("a placement in the last seconds of the cooldown waits for its end, and only the last one does", async () => {
  const b = new Bench();
  b.me = { turn: 3, waitMs: ARM_MS_MAX + 3000 };
  await b.live();
  assert.deepEqual(b.session.place(60, 60, 4), { ok: false, code: Code.cooldown });
  b.clock.pass(b.session.cooldown.leftMs() - ARM_MS_MAX);
  assert.ok(b.session.mayArm);
  assert.deepEqual(b.session.place(60, 60, 4), { ok: true, armed: true });
  assert.deepEqual(b.session.place(61, 60, 5), { ok: true, armed: true });
  assert.deepEqual(b.session.armed, { x: 61, y: 60, colour: 5 });
  b.clock.pass(ARM_MS_MAX - 1);
  assert.equal(b.count("place"), 0);
  b.clock.pass(1);
  assert.equal(b.count("place"), 1);
  assert.deepEqual([b.last("place").x, b.last("place").turn, b.session.armed], [61, 3, null]);
  // The node's clock says that it was a little early: the same copy goes again.
  b.answer(b.last("place"), { verdict: "refused", code: Code.cooldown, waitMs: 120, nextTurn: 3 });
  b.clock.pass(1000);
  assert.equal(b.count("place"), 2);
  assert.deepEqual(b.refused, []);
});

test("an armed placement can be given up, and goes out after a lost connection", async () => {
  const b = new Bench();
  b.me = { turn: 1, waitMs: 4000 };
  await b.live();
  assert.deepEqual(b.session.place(60, 60, 4), { ok: true, armed: true });
  b.session.disarm();
  b.clock.pass(3500);
  assert.equal(b.count("place"), 0);
  b.receive({ type: "me", turn: 1, waitMs: 2000, bannedUntilMs: 0 });
  b.session.place(60, 60, 4);
  b.close();
  b.clock.pass(400);
  assert.equal(b.session.armed !== null, true);
  b.me = { turn: 1, waitMs: 100 };
  b.clock.pass(600);
  b.hello();
  b.base();
  b.clock.pass(100);
  assert.equal(b.count("place"), 1);
});

test("an armed placement that the board refuses by then is told", async () => {
  const b = new Bench();
  b.me = { turn: 1, waitMs: 4000 };
  await b.live();
  assert.deepEqual(b.session.place(60, 60, 4), { ok: true, armed: true });
  b.receive({ type: "settingsChanged", tick: b.model.tick, settings: { ...SETTINGS, version: 2, frozen: true } });
  b.clock.pass(2000);
  assert.deepEqual(b.refused, [Code.frozen]);
  assert.equal(b.session.armed, null);
  assert.equal(b.count("place"), 0);
});

test("a machine that slept tries its link anew, though the clock stood still", async () => {
  const b = new Bench();
  await b.live();
  b.session.wake(5000);
  assert.equal(b.links, 1);
  b.session.wake(60_000);
  assert.equal(b.links, 2);
});

test("a copy that was given up and comes through after all is told, and so is another page's tile", async () => {
  const b = new Bench();
  await b.live();
  b.session.place(60, 60, 4);
  const place = b.last("place");
  b.answer(place, { verdict: "refused", code: Code.store });
  b.accept(place);
  assert.ok(b.told.includes("elsewhere 60,60"));
  assert.equal(b.session.cooldown.leftMs(), 60_000);
});

test("says at once what would be refused anyway", async () => {
  const b = new Bench();
  assert.deepEqual(b.session.place(1, 1, 1), { ok: false, code: "early" });
  b.me = null;
  await b.live();
  assert.deepEqual(b.session.place(1, 1, 1), { ok: false, code: "early" });
  b.receive({ type: "me", turn: 9, waitMs: 0, bannedUntilMs: 0 });
  assert.deepEqual(b.session.place(-1, 1, 1), { ok: false, code: Code.bounds });
  assert.deepEqual(b.session.place(200, 1, 1), { ok: false, code: Code.bounds });
  assert.deepEqual(b.session.place(1, 1, 16), { ok: false, code: Code.colour });
  assert.deepEqual(b.session.place(1, 1, 15), { ok: false, code: Code.colour });
  b.receive({ type: "settingsChanged", tick: 1, settings: { ...SETTINGS, frozen: true } });
  assert.deepEqual(b.session.place(1, 1, 1), { ok: false, code: Code.frozen });
  assert.equal(b.count("place"), 0);
  b.user = "";
  b.session.connect();
  b.hello();
  assert.deepEqual(b.session.place(1, 1, 1), { ok: false, code: Code.signIn });
});

test("another user's session does not send the last one's placement", async () => {
  const b = new Bench();
  await b.live();
  b.session.place(60, 60, 4);
  b.user = "bob";
  b.me = { turn: 3, waitMs: 0 };
  b.session.connect();
  b.hello();
  assert.equal(b.session.pending.all.length, 0);
  assert.equal(b.count("place"), 1);
  b.base(true);
  b.session.place(60, 60, 4);
  assert.equal(b.last("place").turn, 3);
});

test("a notice makes what was not acted on be sent again", async () => {
  const b = new Bench();
  b.session.connect();
  b.hello();
  b.receive({ type: "notice", code: Code.rate, retryMs: 800, detail: "" });
  b.clock.pass(800);
  assert.equal(b.count("subscribe"), 2);
  b.base();
  await settled();
  b.session.place(60, 60, 4);
  b.receive({ type: "notice", code: Code.rate, retryMs: 900, detail: "" });
  b.clock.pass(900);
  assert.equal(b.count("place"), 2);
  b.receive({ type: "notice", code: Code.badMessage, retryMs: 0, detail: "" });
  b.clock.pass(1000);
  assert.equal(b.count("place"), 2);
});

test("an old link that still speaks is not heard", async () => {
  const b = new Bench();
  await b.live();
  const old = b.events;
  b.session.connect();
  b.hello();
  b.base(true);
  old.message({ type: "settingsChanged", tick: 1, settings: { ...SETTINGS, frozen: true } });
  old.closed(1006);
  assert.equal(b.kind, "live");
  assert.equal(b.session.settings?.frozen, false);
});
