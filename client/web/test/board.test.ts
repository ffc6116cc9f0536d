// The board: gaps, repairs, boards from HTTP that are older or newer than the frames, lags, resumes with repeats; and that it
// always ends equal to the model, hashes included.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Board } from "../src/board.ts";
import { chunkID, type ChunkRect } from "../src/grid.ts";
import type { BoardBody, Frame, Section } from "../src/wire.ts";
import { Model } from "./model.ts";
import { seeded } from "./support.ts";

const SCOPE: ChunkRect = { col: 0, row: 0, cols: 4, rows: 3 };
const C = chunkID(1, 2);

type Tiles = readonly (readonly [index: number, colour: number])[];

const packed = (tiles: Tiles) => Uint32Array.from(tiles, ([i, c]) => (i << 8) | c);
const run = (tick: number, ...tiles: Tiles) => frame(tick, { kind: "run", chunk: C, start: null, tiles: packed(tiles) });
// A repair carries the newest tick when it was made: a chunk's later frames have higher ones.
const repair = (tick: number, start: number, ...tiles: Tiles): Frame => ({ ...frame(tick, { kind: "run", chunk: C, start, tiles: packed(tiles) }), repair: true });

function frame(tick: number, ...sections: Section[]): Frame {
  return { type: "frame", tick, repair: false, sections };
}

/** A board of which the base has said that chunk C stands at a sequence; nothing is held of it. */
function based(sequence: number): Board {
  const b = new Board();
  b.scope = SCOPE;
  b.base(10, sequence === 0 ? [] : [{ chunk: C, sequence }]);
  return b;
}

function assertConverged(b: Board, m: Model): void {
  assert.equal(b.behind(), 0);
  assert.ok(b.level());
  for (const { chunk, sequence } of m.chunksAt()) {
    assert.equal(b.heldOf(chunk), sequence, `chunk ${chunk}`);
    assert.deepEqual(b.tilesOf(chunk), m.tiles(chunk), `chunk ${chunk}`);
  }
  assert.deepEqual(b.hashes(), m.hashes(b.scope));
}

test("a run applies in order and a tile placed twice keeps its last colour", () => {
  const b = based(0);
  const changes: unknown[] = [];
  b.onChange = (...change) => changes.push(change);
  b.apply(run(11, [7, 1], [7, 2], [8, 3]));
  assert.equal(b.colourAt(57, 100), 2);
  assert.equal(b.colourAt(58, 100), 3);
  assert.equal(b.heldOf(C), 3);
  assert.deepEqual(changes, [[C, [7, 7, 8]]]);
});

test("a chunk that misses something is behind, keeps its tiles, and is level after the repair", () => {
  const b = based(5);
  assert.equal(b.behind(), 1);
  b.apply(run(11, [7, 1]));
  assert.equal(b.colourAt(57, 100), 0, "nothing is drawn over a gap");
  assert.deepEqual(b.takeRepairs(100), [{ chunk: C, sequence: 0 }]);
  assert.deepEqual(b.takeRepairs(100), [], "asked for once");
  b.apply(run(12, [9, 9]));
  b.apply(repair(12, 0, [1, 1], [2, 2], [3, 3], [4, 4], [5, 5], [7, 1], [9, 9]));
  assert.ok(b.level());
  assert.equal(b.heldOf(C), 7);
  b.apply(run(13, [10, 4]));
  assert.equal(b.colourAt(60, 100), 4);
});

test("other chunks flow while one is behind", () => {
  const b = based(5);
  b.apply(frame(11, { kind: "run", chunk: 0, start: null, tiles: packed([[3, 6]]) }));
  assert.equal(b.colourAt(3, 0), 6);
  assert.equal(b.behind(), 1);
});

test("a repair that got no answer, or one that does not help, is asked for again from nothing", () => {
  const b = based(2);
  b.apply(repair(10, 0, [7, 1], [8, 2]));
  b.base(20, [{ chunk: C, sequence: 5 }]);
  assert.deepEqual(b.takeRepairs(100), [{ chunk: C, sequence: 2 }]);
  b.apply(repair(20, 3, [9, 3], [9, 4]));
  assert.deepEqual(b.takeRepairs(100), [], "the answer may still be on its way");
  b.doubtRepairs();
  assert.deepEqual(b.takeRepairs(100), [{ chunk: C, sequence: 0 }]);
  b.apply(repair(20, 0, [7, 1], [8, 2], [8, 8], [9, 3], [9, 4]));
  assert.ok(b.level());
  assert.equal(b.colourAt(58, 100), 8);
});

test("a frame that comes twice counts once", () => {
  const b = based(0);
  b.apply(run(11, [7, 1]));
  b.apply(run(11, [7, 1]));
  assert.equal(b.heldOf(C), 1);
  assert.ok(b.level());
});

test("an unasked repair ends a lag where the frames stopped", () => {
  const b = based(0);
  b.apply(run(11, [7, 1], [8, 1]));
  b.apply(repair(13, 2, [7, 3], [9, 3]));
  assert.equal(b.heldOf(C), 4);
  assert.ok(b.level());
});

test("a resume after a lag repeats what its repair has brought: nothing counts twice", () => {
  const b = based(0);
  b.apply(run(11, [7, 1]));
  b.apply(repair(13, 1, [8, 2], [9, 3])); // ticks 12 and 13 were not sent: the session lagged
  b.apply(run(12, [8, 2])); // the link broke, and the resume asks for what came after tick 11
  b.apply(run(13, [9, 3]));
  b.apply(run(14, [9, 4]));
  assert.equal(b.behind(), 0);
  assert.equal(b.heldOf(C), 4);
  assert.ok(b.level());
});

test("hashes say where the frames have come: a chunk whose frames were miscounted does not stay behind", () => {
  const m = new Model(seeded(7));
  const b = new Board();
  b.scope = SCOPE;
  m.place(C, 3, 3);
  b.base(m.tick, [{ chunk: C, sequence: 5 }]); // more than there is
  assert.deepEqual(b.takeRepairs(100), [{ chunk: C, sequence: 0 }]);
  m.told.set(C, 1);
  b.apply(m.repair([{ chunk: C, sequence: 0 }]));
  assert.equal(b.behind(), 1);
  b.compare(SCOPE, m.tick, m.chunkHashes(SCOPE));
  assertConverged(b, m);
});

test("repairs may come twice, cross each other, and begin before or after what is held", () => {
  const b = based(6);
  b.takeRepairs(100);
  b.apply(repair(10, 4, [5, 5], [6, 6])); // that of a lag: what comes before is still missing
  assert.equal(b.heldOf(C), 0);
  assert.equal(b.behind(), 1);
  const whole = repair(10, 0, [1, 1], [2, 2], [3, 3], [4, 4], [5, 5], [6, 6]);
  b.apply(whole);
  b.apply(run(11, [1, 7]));
  b.apply(whole);
  b.apply(repair(10, 4, [5, 5], [6, 6]));
  assert.equal(b.heldOf(C), 7);
  assert.equal(b.colourAt(51, 100), 7, "an old repair does not paint over what came after it");
  assert.ok(b.level());
});

test("frames that came while the board was on its way are applied to it, older ones are not", () => {
  const m = new Model(seeded(1));
  const b = new Board();
  b.scope = SCOPE;
  m.placeSome(300, SCOPE);
  b.expectBoard();
  b.base(m.tick, m.base());
  m.placeSome(50, SCOPE);
  b.apply(m.frame());
  const body = m.body();
  m.placeSome(50, SCOPE);
  b.apply(m.frame());
  assert.equal(b.level(), false);
  b.load(body);
  assertConverged(b, m);
});

test("a board newer than the frames lets them catch up", () => {
  const m = new Model(seeded(2));
  const b = new Board();
  b.scope = SCOPE;
  b.expectBoard();
  b.base(m.tick, m.base());
  m.placeSome(200, SCOPE);
  b.load(m.body());
  assert.equal(b.behind(), 0);
  assert.equal(b.level(), false, "ahead of its frames: not to be compared yet");
  b.apply(m.frame());
  assertConverged(b, m);
});

test("a board from HTTP that is older than what is held takes nothing back", () => {
  const m = new Model(seeded(6));
  const b = new Board();
  b.scope = SCOPE;
  m.placeSome(100, SCOPE);
  const old = m.body();
  b.base(m.tick, m.base());
  b.load(old);
  m.placeSome(100, SCOPE);
  b.apply(m.frame());
  b.load(old);
  assertConverged(b, m);
});

test("wrong tiles are found by hashes and repaired from nothing, a tile that was never placed included", () => {
  const m = new Model(seeded(3));
  for (let i = 0; i < 30; i++) m.place(C, i, 1 + (i % 15));
  const wrong = new Board();
  wrong.scope = SCOPE;
  wrong.expectBoard();
  wrong.base(m.tick, m.base());
  const body = m.body();
  body.chunks[0]!.image[2000] = 5;
  wrong.load(body);
  assert.notDeepEqual(wrong.hashes(), m.hashes(SCOPE));
  assert.equal(wrong.compare(SCOPE, m.tick, m.chunkHashes(SCOPE)), 1);
  const repairs = wrong.takeRepairs(100);
  assert.deepEqual(repairs, [{ chunk: C, sequence: 0 }]);
  wrong.apply(run(m.tick + 1, [0, 9]));
  m.place(C, 0, 9);
  m.told.set(C, 31);
  wrong.apply(repair(m.tick + 1, 30, [0, 9])); // that of a lag does not make the rest right
  assert.equal(wrong.behind(), 1);
  assert.equal(wrong.colourAt(51, 100), 2, "what is held stays on show until the repair is here");
  wrong.apply(repair(m.tick + 1, 0, ...m.logs.get(C)!));
  assertConverged(wrong, m);
});

test("a chunk that the node knows nothing of is blanked", () => {
  const m = new Model(seeded(4));
  const b = new Board();
  b.scope = SCOPE;
  m.place(C, 3, 3);
  b.base(m.tick, m.base());
  b.load(m.body());
  assert.equal(b.compare(SCOPE, m.tick, []), 1);
  assert.equal(b.behind(), 1);
  b.apply({ type: "frame", tick: m.tick, repair: true, sections: [{ kind: "set", chunk: C, sequence: 1, image: m.tiles(C) }] });
  assert.equal(b.behind(), 0);
});

test("tiles of chunks that no base has spoken of are not guessed", () => {
  const b = new Board();
  b.scope = { col: 0, row: 0, cols: 1, rows: 1 };
  b.base(10, []);
  b.scope = SCOPE; // the board has grown
  b.apply(run(11, [7, 1])); // continues from a sequence that is not known yet
  assert.equal(b.colourAt(57, 100), 0);
  b.base(12, [{ chunk: C, sequence: 8 }]);
  assert.deepEqual(b.takeRepairs(100), [{ chunk: C, sequence: 0 }]);
});

test("chunks outside the scope are forgotten and told as changed", () => {
  const b = based(0);
  b.apply(run(11, [7, 1]));
  const changed: number[] = [];
  b.onChange = (chunk) => changed.push(chunk);
  b.scope = { col: 0, row: 0, cols: 4, rows: 2 };
  assert.deepEqual(changed, [C]);
  assert.equal(b.colourAt(57, 100), 0);
});

test("too many frames while the board is on its way are made up for by repairs", () => {
  const m = new Model(seeded(5));
  const b = new Board();
  b.scope = SCOPE;
  b.expectBoard();
  b.base(m.tick, m.base());
  const body = m.body();
  for (let i = 0; i < 110; i++) {
    // Each frame has an image, which counts 2,500 tiles: the last ten do not fit any more.
    m.place(C, i, 1 + (i % 15));
    m.told.set(C, i + 1);
    m.tick++;
    b.apply(frame(m.tick, { kind: "set", chunk: C, sequence: i + 1, image: m.tiles(C) }));
  }
  b.load(body);
  assert.equal(b.heldOf(C), 100);
  assert.equal(b.behind(), 1);
  b.apply(m.repair(b.takeRepairs(100)));
  assertConverged(b, m);
});

/** One connection after another with everything that can happen to them; returns what happened, for the failure's message. */
function storm(seed: number): void {
  const random = seeded(seed);
  const m = new Model(random);
  const b = new Board();
  b.scope = SCOPE;
  let asked: { chunk: number; sequence: number }[] = [];
  let sent: Frame[] = []; // since the base, for resumes
  let body: BoardBody | null = null;
  const deliver = (f: Frame) => {
    sent.push(f);
    b.apply(f);
  };
  // Frames that are not sent; a resume may ask for them all the same.
  const lag = (): Frame => {
    const before = new Map(m.told);
    for (let i = m.int(3); i >= 0; i--) {
      sent.push(m.frame());
      m.placeSome(m.int(8), SCOPE);
    }
    return { ...m.since(before), repair: true };
  };
  const answer = () => {
    if (asked.length > 0) b.apply(m.repair(asked));
    asked = [];
  };
  const connect = () => {
    asked = [];
    sent = [];
    b.base(m.tick, m.base());
    b.forgetRepairs();
  };
  m.placeSome(200, SCOPE);
  b.expectBoard();
  connect();
  for (let step = 0; step < 120; step++) {
    m.placeSome(m.int(8), SCOPE);
    switch (m.int(9)) {
      case 0:
      case 1:
      case 2:
        deliver(m.frame());
        break;
      case 3: // a board is fetched now, and arrives later
        body ??= m.body();
        break;
      case 4:
        if (body !== null) b.load(body);
        body = null;
        break;
      case 5:
        answer();
        asked = b.takeRepairs(100);
        break;
      case 6: // a lag, ended by a repair that nobody asked for; it may come before or after the answer to one
        if (m.int(2) === 0) answer();
        b.apply(lag());
        break;
      case 7: // a new connection without a resume
        if (m.int(4) === 0) connect();
        break;
      case 8: // a resume that repeats the frames since some tick
        if (m.int(4) === 0) {
          asked = [];
          b.forgetRepairs();
          for (const f of sent.slice(m.int(sent.length + 1))) b.apply(f);
        }
    }
  }
  b.load(body ?? m.body());
  deliver(m.frame());
  for (let round = 0; b.behind() > 0; round++) {
    assert.ok(round < 5, `seed ${seed}: repairs do not end`);
    b.forgetRepairs();
    b.apply(m.repair(b.takeRepairs(100)));
  }
  try {
    assertConverged(b, m);
  } catch (err) {
    throw new Error(`seed ${seed}`, { cause: err });
  }
  assert.equal(b.compare(SCOPE, m.tick, m.chunkHashes(SCOPE)), 0, `seed ${seed}`);
}

test("whatever happens to connections, the board ends equal to the node's: 2,000 seeds", () => {
  for (let seed = 1; seed <= 2000; seed++) storm(seed);
});
