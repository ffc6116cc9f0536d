// The binary websocket protocol as a browser needs it: client messages are written, messages of a node and board bodies are
// read. docs/protocol.md describes every byte; wire/testdata holds golden messages shared with the Go tests.
//
// Decoders throw Malformed on anything that is not of this protocol, so a caller either gets a whole message or none.
// Numbers of 64 bits that may use all bits are Words; counters (ticks, turns, sequences, milliseconds) are numbers, and one
// above 2^53 is refused because it could not be kept exactly.

import { CHUNK_SIZE, CHUNK_TILES, CHUNKS_SIDE_MAX, chunkCol, chunkRow, SIDE_MAX, type ChunkRect } from "./grid.ts";
import type { Word } from "./hash.ts";
import { parseSettings, type Settings } from "./settings.ts";

/** The websocket subprotocol. */
export const SUBPROTOCOL = "placed.v1";
/** The version of the protocol that this client speaks. */
export const PROTOCOL = 1;
/** The most chunks of one Repair, of one Subscribe by rectangle, and of one GetHashes. */
export const REPAIR_CHUNKS_MAX = 100;
export const SUBSCRIBE_CHUNKS_MAX = 1600;
export const HASHES_CHUNKS_MAX = 400;

const USER_BYTES_MAX = 48;
const DETAIL_BYTES_MAX = 200;

/** A chunk at a sequence number. */
export interface ChunkAt {
  readonly chunk: number;
  readonly sequence: number;
}

/** The last frame that a client has applied. */
export interface Resume {
  readonly epoch: Word;
  readonly incarnation: Word;
  readonly tick: number;
}

export type ClientMessage =
  | { readonly type: "subscribe"; readonly chunks: ChunkRect | null; readonly resume: Resume | null } // chunks null: the whole board
  | { readonly type: "place"; readonly turn: number; readonly nonce: Word; readonly x: number; readonly y: number; readonly colour: number }
  | { readonly type: "repair"; readonly chunks: readonly ChunkAt[] }
  | { readonly type: "getHashes"; readonly chunks: ChunkRect };

/** Tiles of a run or patch, each as index in the chunk * 256 + colour. */
export type Tiles = Uint32Array;

/**
 * What a frame does to one chunk. Runs and patches of a repair say what the chunk stands at before them (start); those of
 * other frames continue from the frame before (start null). An image is unpacked already: 2,500 colours.
 */
export type Section =
  | { readonly kind: "run"; readonly chunk: number; readonly start: number | null; readonly tiles: Tiles } // advances the sequence by the number of tiles
  | { readonly kind: "patch"; readonly chunk: number; readonly start: number | null; readonly advance: number; readonly tiles: Tiles } // the last colours only
  | { readonly kind: "set"; readonly chunk: number; readonly sequence: number; readonly image: Uint8Array };

export type Verdict = "accepted" | "charged" | "unknown" | "refused";
const VERDICTS: readonly Verdict[] = ["accepted", "charged", "unknown", "refused"];

export interface Hello {
  readonly type: "hello";
  readonly epoch: Word;
  readonly incarnation: Word;
  readonly tick: number;
  readonly serverTimeMs: number;
  readonly heartbeatMs: number;
  readonly user: string; // "" when not signed in
  readonly me: { readonly turn: number; readonly waitMs: number } | null; // null: a Me follows
  readonly settings: Settings;
}

export interface Base {
  readonly type: "base";
  readonly tick: number;
  readonly resumed: boolean;
  readonly chunks: readonly ChunkAt[];
}

export interface Frame {
  readonly type: "frame";
  readonly tick: number;
  readonly repair: boolean;
  readonly sections: readonly Section[];
}

export interface Heartbeat {
  readonly type: "heartbeat";
  readonly tick: number;
  readonly serverTimeMs: number;
  readonly online: number;
  readonly tiles: Word;
  readonly sequences: Word;
}

export interface Me {
  readonly type: "me";
  readonly turn: number;
  readonly waitMs: number;
  readonly bannedUntilMs: number; // 0: not banned
}

export interface Placed {
  readonly type: "placed";
  readonly verdict: Verdict;
  readonly code: number; // of a refusal
  readonly turn: number;
  readonly nonce: Word;
  readonly x: number;
  readonly y: number;
  readonly colour: number;
  readonly trueColour: boolean; // colour is what the board shows at (x, y)
  readonly chunk: number; // accepted
  readonly sequence: number; // accepted
  readonly waitMs: number;
  readonly nextTurn: number; // 0 when not known
}

export interface SettingsChanged {
  readonly type: "settingsChanged";
  readonly tick: number;
  readonly settings: Settings;
}

export interface ChunkHash extends ChunkAt {
  readonly tiles: Word;
}

export interface ChunkHashes {
  readonly type: "chunkHashes";
  readonly tick: number;
  readonly chunks: readonly ChunkHash[];
}

export interface Notice {
  readonly type: "notice";
  readonly code: number;
  readonly retryMs: number;
  readonly detail: string;
}

export interface Move {
  readonly type: "move";
  readonly withinMs: number;
}

export type ServerMessage = Hello | Base | Frame | Heartbeat | Me | Placed | SettingsChanged | ChunkHashes | Notice | Move;

/** A whole board at a tick: the body of GET api/v1/board. */
export interface BoardBody {
  readonly epoch: Word;
  readonly incarnation: Word;
  readonly tick: number;
  readonly width: number;
  readonly height: number;
  readonly chunks: readonly { readonly chunk: number; readonly sequence: number; readonly image: Uint8Array }[];
}

/** Thrown for bytes that are not a message of this protocol. */
export class Malformed extends Error {
  override name = "Malformed";
}

/** Thrown for the hello of a node that speaks another version: this page is out of date. */
export class OtherVersion extends Malformed {
  override name = "OtherVersion";
}

// ---- writing ----

class Writer {
  readonly #bytes: number[] = [];

  byte(v: number): this {
    this.#bytes.push(v & 0xff);
    return this;
  }

  u32(v: number): this {
    return this.byte(v).byte(v >>> 8).byte(v >>> 16).byte(v >>> 24);
  }

  word(w: Word): this {
    return this.u32(w.lo).u32(w.hi);
  }

  varint(v: number): this {
    while (v >= 0x80) {
      this.#bytes.push((v % 0x80) | 0x80);
      v = Math.floor(v / 0x80);
    }
    this.#bytes.push(v);
    return this;
  }

  zigzag(v: number): this {
    return this.varint(v < 0 ? -2 * v - 1 : 2 * v);
  }

  rect(r: ChunkRect): this {
    return this.varint(r.col).varint(r.row).varint(r.cols).varint(r.rows);
  }

  done(): Uint8Array<ArrayBuffer> {
    return Uint8Array.from(this.#bytes);
  }
}

/** Encodes a message to a node. Chunks of a repair must ascend. */
export function encodeClient(m: ClientMessage): Uint8Array<ArrayBuffer> {
  const w = new Writer();
  switch (m.type) {
    case "subscribe":
      w.byte(0x01).byte((m.chunks === null ? 1 : 0) | (m.resume === null ? 0 : 2));
      if (m.chunks !== null) w.rect(m.chunks);
      if (m.resume !== null) w.word(m.resume.epoch).word(m.resume.incarnation).varint(m.resume.tick);
      return w.done();
    case "place":
      return w.byte(0x02).varint(m.turn).word(m.nonce).zigzag(m.x).zigzag(m.y).varint(m.colour).done();
    case "repair": {
      w.byte(0x03).varint(m.chunks.length);
      let previous = 0;
      for (const c of m.chunks) {
        w.varint(c.chunk - previous).varint(c.sequence);
        previous = c.chunk;
      }
      return w.done();
    }
    case "getHashes":
      return w.byte(0x04).rect(m.chunks).done();
  }
}

// ---- reading ----

const utf8 = new TextDecoder("utf-8", { fatal: true });

class Reader {
  readonly #b: Uint8Array;
  #at = 0;

  constructor(b: Uint8Array) {
    this.#b = b;
  }

  get left(): number {
    return this.#b.length - this.#at;
  }

  byte(): number {
    const v = this.#b[this.#at];
    if (v === undefined) throw new Malformed("it ends too early");
    this.#at++;
    return v;
  }

  u16(): number {
    return this.byte() | (this.byte() << 8);
  }

  u32(): number {
    return (this.u16() | (this.u16() << 16)) >>> 0;
  }

  word(): Word {
    const lo = this.u32();
    return { hi: this.u32(), lo };
  }

  /** A 64-bit little-endian counter. */
  counter(): number {
    const w = this.word();
    return exact(w.hi * 2 ** 32 + w.lo);
  }

  varint(): number {
    let b = this.byte();
    if (b < 0x80) return b;
    let v = b & 0x7f;
    let scale = 0x80;
    for (;;) {
      b = this.byte();
      v += (b & 0x7f) * scale;
      if (b < 0x80) break;
      scale *= 0x80;
      if (scale > 2 ** 56) throw new Malformed("a number above 53 bits");
    }
    if (b === 0) throw new Malformed("a number that is padded");
    return exact(v);
  }

  zigzag(): number {
    const v = this.varint();
    return v % 2 === 0 ? v / 2 : -(v + 1) / 2;
  }

  /** How many entries follow, each of at least bytesMin bytes. */
  count(bytesMin: number): number {
    const n = this.varint();
    if (n > this.left / bytesMin) throw new Malformed("a count beyond the end");
    return n;
  }

  take(n: number): Uint8Array {
    if (n > this.left) throw new Malformed("it ends too early");
    this.#at += n;
    return this.#b.subarray(this.#at - n, this.#at);
  }

  text(bytesMax = Infinity): string {
    const b = this.take(this.count(1));
    if (b.length > bytesMax) throw new Malformed("a text that is too long");
    try {
      return utf8.decode(b);
    } catch {
      throw new Malformed("a text that is not UTF-8");
    }
  }

  flags(known: number): number {
    const v = this.byte();
    if ((v & ~known) !== 0) throw new Malformed("an unknown flag");
    return v;
  }

  /** The chunk that lies delta after the previous one of its list (-1 before the first); chunks of a list ascend strictly. */
  chunkAfter(previous: number, delta: number): number {
    if (previous >= 0 && delta <= 0) throw new Malformed("chunks that do not ascend");
    const chunk = Math.max(previous, 0) + delta;
    if (chunkCol(chunk) >= CHUNKS_SIDE_MAX || chunkRow(chunk) >= CHUNKS_SIDE_MAX || chunk > 0xffff) {
      throw new Malformed("a chunk beyond the largest board");
    }
    return chunk;
  }

  settings(): Settings {
    const text = this.text();
    try {
      return parseSettings(JSON.parse(text));
    } catch (err) {
      throw new Malformed(`settings: ${String(err)}`);
    }
  }

  image(wide: boolean): Uint8Array {
    return unpackImage(this.take(wide ? CHUNK_TILES : CHUNK_TILES / 2), wide);
  }
}

function exact(v: number): number {
  if (v > Number.MAX_SAFE_INTEGER) throw new Malformed("a number above 53 bits");
  return v;
}

/** Unpacks a chunk image to 2,500 colours; the result is a copy. At 4 bits a colour the left tile is in the high bits. */
export function unpackImage(image: Uint8Array, wide: boolean): Uint8Array {
  if (wide) return image.slice();
  const tiles = new Uint8Array(CHUNK_TILES);
  for (let i = 0; i < image.length; i++) {
    tiles[2 * i] = image[i]! >> 4;
    tiles[2 * i + 1] = image[i]! & 0x0f;
  }
  return tiles;
}

/** Decodes one message of a node. */
export function decodeServer(b: Uint8Array): ServerMessage {
  const r = new Reader(b);
  const m = decodeMessage(r);
  if (r.left > 0) throw new Malformed("bytes after its end");
  return m;
}

function decodeMessage(r: Reader): ServerMessage {
  const type = r.byte();
  switch (type) {
    case 0x80:
      return decodeHello(r);
    case 0x81:
      return { type: "base", tick: r.varint(), resumed: r.flags(1) !== 0, chunks: decodeChunksAt(r) };
    case 0x82:
    case 0x83:
      return { type: "frame", repair: type === 0x83, tick: r.varint(), sections: decodeSections(r, type === 0x83) };
    case 0x84:
      return {
        type: "heartbeat", tick: r.varint(), serverTimeMs: r.varint(), online: r.varint(), tiles: r.word(), sequences: r.word(),
      };
    case 0x85:
      return { type: "me", turn: r.varint(), waitMs: r.varint(), bannedUntilMs: r.varint() };
    case 0x86:
      return decodePlaced(r);
    case 0x87:
      return { type: "settingsChanged", tick: r.varint(), settings: r.settings() };
    case 0x88:
      return { type: "chunkHashes", tick: r.varint(), chunks: decodeChunkHashes(r) };
    case 0x89:
      return { type: "notice", code: r.byte(), retryMs: r.varint(), detail: r.text(DETAIL_BYTES_MAX) };
    case 0x8a:
      return { type: "move", withinMs: r.varint() };
    default:
      throw new Malformed("an unknown type of message");
  }
}

function decodeHello(r: Reader): Hello {
  if (r.varint() !== PROTOCOL) throw new OtherVersion("another version of the protocol");
  const epoch = r.word();
  const incarnation = r.word();
  const tick = r.varint();
  const serverTimeMs = r.varint();
  const heartbeatMs = r.varint();
  const me = r.flags(1) !== 0 ? { turn: r.varint(), waitMs: r.varint() } : null;
  const user = r.text(USER_BYTES_MAX);
  return { type: "hello", epoch, incarnation, tick, serverTimeMs, heartbeatMs, user, me, settings: r.settings() };
}

function decodePlaced(r: Reader): Placed {
  const flags = r.flags(7);
  const verdict = VERDICTS[flags & 3]!;
  const code = verdict === "refused" ? r.byte() : 0;
  const turn = r.varint();
  const nonce = r.word();
  const x = r.zigzag();
  const y = r.zigzag();
  const colour = r.byte();
  const accepted = verdict === "accepted";
  const chunk = accepted ? r.chunkAfter(-1, r.varint()) : 0;
  const sequence = accepted ? r.varint() : 0;
  return {
    type: "placed", verdict, code, turn, nonce, x, y, colour, trueColour: (flags & 4) !== 0, chunk, sequence,
    waitMs: r.varint(), nextTurn: r.varint(),
  };
}

function decodeChunksAt(r: Reader): ChunkAt[] {
  const list: ChunkAt[] = new Array(r.count(2));
  let chunk = -1;
  for (let i = 0; i < list.length; i++) {
    chunk = r.chunkAfter(chunk, r.varint());
    list[i] = { chunk, sequence: r.varint() };
  }
  return list;
}

function decodeChunkHashes(r: Reader): ChunkHash[] {
  const list: ChunkHash[] = new Array(r.count(10));
  let chunk = -1;
  for (let i = 0; i < list.length; i++) {
    chunk = r.chunkAfter(chunk, r.varint());
    list[i] = { chunk, sequence: r.varint(), tiles: r.word() };
  }
  return list;
}

function decodeSections(r: Reader, repair: boolean): Section[] {
  const sections: Section[] = [];
  let chunk = -1;
  while (r.left > 0) {
    const head = r.varint();
    chunk = r.chunkAfter(chunk, Math.floor(head / 2));
    if (head % 2 === 1) sections.push(decodeExtended(r, chunk, repair));
    else if (repair) throw new Malformed("a repair that does not say where it begins");
    else sections.push({ kind: "run", chunk, start: null, tiles: decodeTiles(r, 1, false) });
  }
  return sections;
}

/** Reads a section with a descriptor byte: kind in bits 0-1, width 8 in bit 2, number of tiles in bits 3-7 (0: a varint follows). */
function decodeExtended(r: Reader, chunk: number, repair: boolean): Section {
  const descriptor = r.byte();
  const kind = descriptor & 3;
  const wide = (descriptor & 4) !== 0;
  let n = descriptor >> 3;
  if (kind === 2) {
    if (n !== 0) throw new Malformed("an image with a count of tiles");
    return { kind: "set", chunk, sequence: r.varint(), image: r.image(wide) };
  }
  if (kind === 3) throw new Malformed("an unknown kind of section");
  if (n === 0) {
    n = r.varint();
    if (n <= 31) throw new Malformed("a count of tiles that belongs into the descriptor");
  }
  if (kind === 0) {
    if (n === 1 && !wide && !repair) throw new Malformed("a single tile that needs no descriptor");
    const start = repair ? r.varint() : null;
    return { kind: "run", chunk, start, tiles: decodeTiles(r, n, wide) };
  }
  const advance = r.varint();
  if (advance < n) throw new Malformed("a patch that advances by less than its tiles");
  const start = repair ? r.varint() : null;
  return { kind: "patch", chunk, start, advance, tiles: decodeTiles(r, n, wide) };
}

function decodeTiles(r: Reader, n: number, wide: boolean): Tiles {
  const size = wide ? 3 : 2;
  const b = r.take(n * size);
  const tiles = new Uint32Array(n);
  for (let i = 0, at = 0; i < n; i++, at += size) {
    const v = b[at]! | (b[at + 1]! << 8);
    const index = wide ? v : v >> 4;
    if (index >= CHUNK_TILES) throw new Malformed("a tile beyond its chunk");
    tiles[i] = (index << 8) | (wide ? b[at + 2]! : v & 0x0f);
  }
  return tiles;
}

const BODY_MAGIC = 0x44434c50; // "PLCD", the first byte lowest
const BODY_VERSION = 1;

/** Decodes the body of GET api/v1/board. */
export function decodeBoard(b: Uint8Array): BoardBody {
  const r = new Reader(b);
  if (r.u32() !== BODY_MAGIC) throw new Malformed("not a board");
  if (r.byte() !== BODY_VERSION) throw new Malformed("a board of an unknown version");
  const width = r.byte();
  if (width !== 4 && width !== 8) throw new Malformed("a board of an unknown colour width");
  if (r.u16() !== 0) throw new Malformed("a board with an unknown flag");
  const wide = width === 8;
  const body = { epoch: r.word(), incarnation: r.word(), tick: r.counter(), width: r.u32(), height: r.u32() };
  if (body.width < 1 || body.width > SIDE_MAX || body.height < 1 || body.height > SIDE_MAX) {
    throw new Malformed("a board of an impossible size");
  }
  const n = r.u32();
  if (r.left !== n * (10 + (wide ? CHUNK_TILES : CHUNK_TILES / 2))) {
    throw new Malformed("a board whose length is not that of its chunks");
  }
  const chunks = [];
  for (let i = 0, chunk = -1; i < n; i++) {
    chunk = r.chunkAfter(chunk, r.u16() - Math.max(chunk, 0));
    if (chunkCol(chunk) * CHUNK_SIZE >= body.width || chunkRow(chunk) * CHUNK_SIZE >= body.height) {
      throw new Malformed("a chunk outside its board");
    }
    const sequence = r.counter();
    if (sequence === 0) throw new Malformed("a chunk without placements");
    chunks.push({ chunk, sequence, image: r.image(wide) });
  }
  return { ...body, chunks };
}
