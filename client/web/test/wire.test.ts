// The codec against the golden messages that the Go tests share: every one decodes to its value or encodes to its bytes, and
// every message that Go refuses is refused here.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { ChunkRect } from "../src/grid.ts";
import type { Word } from "../src/hash.ts";
import { decodeBoard, decodeServer, encodeClient, Malformed, unpackImage, type ClientMessage, type Section } from "../src/wire.ts";
import { bytesOf, testdata, wordOf } from "./support.ts";

interface Golden {
  name: string;
  direction: "client" | "node" | "http";
  type: string;
  hex: string;
  value: any;
}

const golden = testdata<Golden[]>("golden.json");

function clientMessage(g: Golden): ClientMessage {
  const v = g.value;
  switch (g.type) {
    case "subscribe": {
      const r = v.resume;
      const resume = r === undefined ? null : { epoch: wordOf(r.epoch), incarnation: wordOf(r.incarnation), tick: Number(r.tick) };
      return { type: "subscribe", chunks: v.whole ? null : (v.chunks as ChunkRect), resume };
    }
    case "place":
      return { type: "place", turn: Number(v.turn), nonce: wordOf(v.nonce), x: v.x, y: v.y, colour: v.colour };
    case "repair":
      return { type: "repair", chunks: v.chunks.map((c: { chunk: number; sequence: string }) => ({ chunk: c.chunk, sequence: Number(c.sequence) })) };
    case "getHashes":
      return { type: "getHashes", chunks: v.chunks };
    default:
      throw new Error(`golden message of unknown type ${g.type}`);
  }
}

const text = (w: Word) => ((BigInt(w.hi) << 32n) | BigInt(w.lo)).toString();

/** A section as the golden file writes it. */
function sectionValue(s: Section, golden: { width: number; image?: string }): unknown {
  const start = s.kind === "set" || s.start === null ? {} : { sequence: String(s.start) };
  const common = { chunk: s.chunk, kind: s.kind, width: golden.width, ...start };
  if (s.kind === "set") {
    assert.deepEqual(s.image, unpackImage(bytesOf(golden.image!), golden.width === 8));
    return { ...common, sequence: String(s.sequence), image: golden.image };
  }
  const tiles = [...s.tiles].map((t) => [t >> 8, t & 0xff]);
  return s.kind === "run" ? { ...common, tiles } : { ...common, advance: String(s.advance), tiles };
}

/** The decoded message as the golden file writes it. */
function serverValue(g: Golden): unknown {
  const m = decodeServer(bytesOf(g.hex));
  assert.equal(m.type, g.type);
  switch (m.type) {
    case "hello": {
      const s = g.value.settings;
      assert.deepEqual(m.settings, {
        version: s.version, width: s.width, height: s.height, cooldownMs: s.cooldown_ms, frozen: s.frozen,
        announcement: s.announcement, loading: s.state === "loading",
        palette: s.palette.map((e: { name: string; rgb: number; closed?: boolean }) => ({ name: e.name, rgb: e.rgb, closed: e.closed === true })),
      });
      return {
        protocol: 1, epoch: text(m.epoch), incarnation: text(m.incarnation), tick: String(m.tick), serverTimeMs: String(m.serverTimeMs),
        heartbeatMs: String(m.heartbeatMs), user: m.user, known: m.me !== null,
        ...(m.me === null ? {} : { turn: String(m.me.turn), waitMs: String(m.me.waitMs) }), settings: s,
      };
    }
    case "base":
      return { tick: String(m.tick), resumed: m.resumed, chunks: m.chunks.map((c) => ({ chunk: c.chunk, sequence: String(c.sequence) })) };
    case "frame":
      return { tick: String(m.tick), repair: m.repair, sections: m.sections.map((s, i) => sectionValue(s, g.value.sections[i])) };
    case "heartbeat":
      return {
        tick: String(m.tick), serverTimeMs: String(m.serverTimeMs), online: String(m.online),
        hashes: { tiles: text(m.tiles), sequences: text(m.sequences) },
      };
    case "me":
      return { turn: String(m.turn), waitMs: String(m.waitMs), bannedUntilMs: String(m.bannedUntilMs) };
    case "placed":
      return {
        verdict: m.verdict, ...(m.verdict === "refused" ? { code: m.code } : {}), turn: String(m.turn), nonce: text(m.nonce), x: m.x, y: m.y,
        colour: m.colour, trueColour: m.trueColour, ...(m.verdict === "accepted" ? { chunk: m.chunk, sequence: String(m.sequence) } : {}),
        waitMs: String(m.waitMs), nextTurn: String(m.nextTurn),
      };
    case "settingsChanged":
      assert.equal(m.settings.version, g.value.settings.version);
      return { tick: String(m.tick), settings: g.value.settings };
    case "chunkHashes":
      return {
        tick: String(m.tick),
        chunks: m.chunks.map((c) => ({ chunk: c.chunk, sequence: String(c.sequence), tiles: text(c.tiles) })),
      };
    case "notice":
      return { code: m.code, retryMs: String(m.retryMs), detail: m.detail };
    case "move":
      return { withinMs: String(m.withinMs) };
  }
}

/** The golden file leaves out or writes as numbers some small values; both sides are compared as text where they are given. */
function loosely(v: unknown): unknown {
  return JSON.parse(JSON.stringify(v, (_, x) => (typeof x === "number" ? String(x) : x)));
}

for (const g of golden) {
  test(`golden ${g.direction}: ${g.name}`, () => {
    if (g.direction === "client") {
      assert.equal(Buffer.from(encodeClient(clientMessage(g))).toString("hex"), g.hex);
    } else if (g.direction === "http") {
      const b = decodeBoard(bytesOf(g.hex));
      const v = g.value;
      assert.deepEqual(loosely({ epoch: text(b.epoch), incarnation: text(b.incarnation), tick: b.tick, width: b.width, height: b.height }), loosely({
        epoch: v.epoch, incarnation: v.incarnation, tick: v.tick, width: v.width, height: v.height,
      }));
      assert.deepEqual(b.chunks.map((c) => [c.chunk, String(c.sequence)]), v.chunks.map((c: { chunk: number; sequence: string }) => [c.chunk, c.sequence]));
      b.chunks.forEach((c, i) => assert.deepEqual(c.image, unpackImage(bytesOf(v.chunks[i].image), v.colourWidth === 8)));
    } else {
      assert.deepEqual(loosely(serverValue(g)), loosely(g.value));
    }
  });
}

test("the golden file has every message of a node and a client", () => {
  const types = new Set(golden.map((g) => g.type));
  for (const type of ["subscribe", "place", "repair", "getHashes", "hello", "base", "frame", "heartbeat", "me", "placed", "settingsChanged", "chunkHashes", "notice", "move", "board"]) {
    assert.ok(types.has(type), type);
  }
});

for (const r of testdata<Golden[]>("rejects.json")) {
  if (r.direction === "client") continue; // refused by nodes
  test(`refuses ${r.direction}: ${r.name}`, () => {
    const decode = r.direction === "http" ? decodeBoard : decodeServer;
    assert.throws(() => decode(bytesOf(r.hex)), Malformed);
  });
}
