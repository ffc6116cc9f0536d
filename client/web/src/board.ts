// The board as this page holds it: per chunk the colours of its tiles and two sequence numbers.
//
//   held  the placements that the tiles contain
//   sent  how far the frames of this session have come
//
// Frames do not carry absolute sequences, they continue from `sent`. A chunk is level when held = sent. It is behind
// (held < sent) after a gap: frames then only move `sent`, and a repair, which says where it begins and ends where the next
// frame continues, brings the tiles up. It is ahead (held > sent) when a board fetched over HTTP is newer than the frames: those are dropped until they
// catch up. Nothing is ever read back from a canvas: this is the truth that the renderer draws.

import { CHUNK_SIZE, CHUNK_TILES, chunkOf, rectHas, rectWithin, tileIndex, tileOrigin, type ChunkRect } from "./grid.ts";
import { sequenceHash, tileHash, tilesHash, xorWord, sameWord, ZERO_WORD, type Word } from "./hash.ts";
import type { BoardBody, ChunkAt, ChunkHash, Frame, Section, Tiles } from "./wire.ts";

/** Tiles kept while a board is on its way over HTTP; beyond it frames are only counted, and repairs make up for them. */
export const BUFFERED_TILES_MAX = 250_000;

interface Chunk {
  readonly id: number;
  tiles: Uint8Array; // 2,500 colours
  held: number;
  sent: number;
  tick: number; // of the frame that moved sent last; a frame that does not follow it is a repeat
  asked: number; // the sequence named in the repair under way, -1 for none
  blank: boolean; // the repair under way starts from nothing: the tiles are not to be trusted
  hash: Word | null; // of the tiles; null: not computed yet
}

interface Buffered {
  readonly section: Section;
  readonly start: number; // the chunk's sequence before the section
}

/** Told of every change of tiles: some tiles of a chunk by index, or null for the whole chunk. */
export type ChunkListener = (chunk: number, tiles: readonly number[] | null) => void;

const EMPTY: ChunkRect = { col: 0, row: 0, cols: 0, rows: 0 };

export class Board {
  /** Called after tiles changed. */
  onChange: ChunkListener = () => {};

  readonly #chunks = new Map<number, Chunk>();
  #scope: ChunkRect = EMPTY;
  #buffer: Buffered[] | null = null;
  #buffered = 0;
  #baseTick = 0;
  #based: ChunkRect = EMPTY; // the part of the scope that a base has told the sequences of

  /** The chunks that this session follows. Others are forgotten. */
  get scope(): ChunkRect {
    return this.#scope;
  }

  set scope(scope: ChunkRect) {
    this.#scope = scope;
    this.#based = rectWithin(this.#based, scope);
    for (const id of this.#chunks.keys()) {
      if (rectHas(scope, id)) continue;
      this.#chunks.delete(id);
      this.onChange(id, null);
    }
  }

  /** Takes a scope whose new chunks stand at 0 without a base saying so: the board has grown, and repairs bring what they hold. */
  grow(scope: ChunkRect): void {
    this.scope = scope;
    this.#based = scope;
  }

  /** Forgets everything: another board, or none yet. */
  clear(): void {
    const ids = [...this.#chunks.keys()];
    this.#chunks.clear();
    this.#based = EMPTY;
    this.#buffer = null;
    this.#buffered = 0;
    for (const id of ids) this.onChange(id, null);
  }

  /** The colour of a tile; 0 where nobody has placed one. */
  colourAt(x: number, y: number): number {
    return this.#chunks.get(chunkOf(x, y))?.tiles[tileIndex(x, y)] ?? 0;
  }

  /** The colours of a chunk, or null for a chunk without placements. The caller must not write to them. */
  tilesOf(chunk: number): Uint8Array | null {
    return this.#chunks.get(chunk)?.tiles ?? null;
  }

  /** The sequence number that a chunk's tiles stand at. */
  heldOf(chunk: number): number {
    return this.#chunks.get(chunk)?.held ?? 0;
  }

  /** Starts to keep frames until load: a board is on its way over HTTP. */
  expectBoard(): void {
    this.#buffer = [];
    this.#buffered = 0;
  }

  /** Takes a board that came over HTTP, then what frames have said meanwhile. What is held already and newer stays. */
  load(body: BoardBody): void {
    for (const c of body.chunks) {
      if (!rectHas(this.#scope, c.chunk)) continue;
      const chunk = this.#chunk(c.chunk);
      if (c.sequence <= chunk.held && chunk.held > 0) continue;
      this.#setImage(chunk, c.image, c.sequence);
    }
    const buffer = this.#buffer ?? [];
    this.#buffer = null;
    this.#buffered = 0;
    for (const b of buffer) {
      const chunk = this.#chunks.get(b.section.chunk);
      if (chunk !== undefined) this.#settle(chunk, b.section, b.start);
    }
  }

  /** Takes the answer to a subscription: where the frames after tick continue. Chunks that are not named stand at 0. */
  base(tick: number, chunks: readonly ChunkAt[]): void {
    this.#baseTick = tick;
    this.#based = this.#scope;
    for (const c of this.#chunks.values()) {
      c.sent = 0;
      c.tick = tick;
      c.asked = -1;
    }
    for (const c of chunks) {
      if (rectHas(this.#scope, c.chunk)) this.#chunk(c.chunk).sent = c.sequence;
    }
  }

  /** Applies a frame. What it says of chunks that no base has spoken of could not be counted; the base to come covers it. */
  apply(frame: Frame): void {
    for (const section of frame.sections) {
      if (!rectHas(this.#based, section.chunk)) continue;
      const chunk = this.#chunk(section.chunk);
      if (frame.repair) {
        this.#repair(chunk, section);
        chunk.tick = Math.max(chunk.tick, frame.tick); // the newest tick that it makes up for: a resume may repeat its frames
      } else if (frame.tick > chunk.tick) {
        chunk.tick = frame.tick;
        this.#advance(chunk, section);
      }
    }
  }

  /** Names up to `most` chunks that are behind and in no repair yet, ascending; from now on they count as asked for. */
  takeRepairs(most: number): ChunkAt[] {
    const behind: Chunk[] = [];
    for (const c of this.#chunks.values()) {
      if (c.asked < 0 && isBehind(c)) behind.push(c);
    }
    behind.sort((a, b) => a.id - b.id);
    return behind.slice(0, most).map((c) => {
      c.asked = c.blank ? 0 : c.held;
      return { chunk: c.id, sequence: c.asked };
    });
  }

  /** Repairs under way will not be answered any more: the link is another one. */
  forgetRepairs(): void {
    for (const c of this.#chunks.values()) c.asked = -1;
  }

  /** Chunks whose repair has not come, or has not helped, are asked for again: from nothing, which any answer heals. */
  doubtRepairs(): void {
    for (const c of this.#chunks.values()) {
      if (c.asked < 0) continue;
      c.asked = -1;
      c.blank = true;
    }
  }

  /** How many chunks are behind. */
  behind(): number {
    let n = 0;
    for (const c of this.#chunks.values()) if (isBehind(c)) n++;
    return n;
  }

  /** Whether every chunk is level, so that hashes can be compared. */
  level(): boolean {
    if (this.#buffer !== null) return false;
    for (const c of this.#chunks.values()) if (isBehind(c) || c.held !== c.sent) return false;
    return true;
  }

  /** Computes the hashes of up to `most` chunks that have none yet; false when none was left. Spreads the cost of a new board. */
  hashSome(most: number): boolean {
    for (const c of this.#chunks.values()) {
      if (c.hash !== null) continue;
      if (most-- <= 0) return true;
      c.hash = tilesHash(c.id, c.tiles);
    }
    return false;
  }

  /** The XOR over all chunks of the hashes of tiles and of sequences, as heartbeats carry them. */
  hashes(): { tiles: Word; sequences: Word } {
    let tiles = ZERO_WORD;
    let sequences = ZERO_WORD;
    for (const c of this.#chunks.values()) {
      c.hash ??= tilesHash(c.id, c.tiles);
      tiles = xorWord(tiles, c.hash);
      sequences = xorWord(sequences, sequenceHash(c.id, c.held));
    }
    return { tiles, sequences };
  }

  /**
   * Compares with the node's hashes of the chunks of a rectangle; chunks that it leaves out stand at 0. Those that differ are
   * not trusted any more, count as behind, and are repaired from nothing; chunks that are behind already are left alone.
   * The answer also says where the frames up to its tick have come. Returns how many differ.
   */
  compare(rect: ChunkRect, tick: number, hashes: readonly ChunkHash[]): number {
    const theirs = new Map(hashes.map((h) => [h.chunk, h]));
    let differ = 0;
    for (const h of hashes) if (rectHas(this.#scope, h.chunk)) this.#chunk(h.chunk);
    for (const c of this.#chunks.values()) {
      if (!rectHas(rect, c.id)) continue;
      const their = theirs.get(c.id);
      if (tick >= c.tick) {
        c.sent = their?.sequence ?? 0;
        c.tick = tick;
      }
      if (isBehind(c)) continue;
      c.hash ??= tilesHash(c.id, c.tiles);
      if (c.held === (their?.sequence ?? 0) && sameWord(c.hash, their?.tiles ?? ZERO_WORD)) continue;
      c.blank = true;
      c.asked = -1;
      differ++;
    }
    return differ;
  }

  #chunk(id: number): Chunk {
    let c = this.#chunks.get(id);
    if (c === undefined) {
      c = { id, tiles: new Uint8Array(CHUNK_TILES), held: 0, sent: 0, tick: this.#baseTick, asked: -1, blank: false, hash: ZERO_WORD };
      this.#chunks.set(id, c);
    }
    return c;
  }

  #advance(chunk: Chunk, section: Section): void {
    const start = chunk.sent;
    chunk.sent = endOf(section, start);
    if (this.#buffer === null) {
      this.#settle(chunk, section, start);
      return;
    }
    this.#buffered += section.kind === "set" ? CHUNK_TILES : section.tiles.length;
    if (this.#buffered <= BUFFERED_TILES_MAX) this.#buffer.push({ section, start });
  }

  /** Takes a repair, asked for or not: it says where it begins and ends where the next frame continues. */
  #repair(chunk: Chunk, section: Section): void {
    const start = section.kind === "set" ? 0 : (section.start ?? 0);
    if (chunk.blank && start === 0) this.#setImage(chunk, new Uint8Array(CHUNK_TILES), 0);
    this.#settle(chunk, section, start);
    chunk.sent = Math.max(chunk.sent, endOf(section, start));
    if (!isBehind(chunk)) chunk.asked = -1;
  }

  /** Brings the tiles from start to the section's end, if they have not passed it and miss nothing before it. */
  #settle(chunk: Chunk, section: Section, start: number): void {
    const end = endOf(section, start);
    if (section.kind === "set") {
      if (chunk.blank || end > chunk.held) this.#setImage(chunk, section.image, end);
      return;
    }
    if (end <= chunk.held || start > chunk.held) return; // start > held: a gap, behind until repaired
    // Tiles of it that are held already are painted again and end as they were: the last of each tile counts.
    this.#setTiles(chunk, section.tiles);
    chunk.held = end;
  }

  #setImage(chunk: Chunk, image: Uint8Array, sequence: number): void {
    chunk.tiles = image;
    chunk.held = sequence;
    chunk.hash = null;
    chunk.blank = false;
    this.onChange(chunk.id, null);
  }

  #setTiles(chunk: Chunk, tiles: Tiles): void {
    const origin = tileOrigin(chunk.id);
    const changed: number[] = [];
    for (const tile of tiles) {
      const index = tile >> 8;
      const colour = tile & 0xff;
      const before = chunk.tiles[index]!;
      if (before === colour) continue;
      if (chunk.hash !== null) {
        const x = origin.x + (index % CHUNK_SIZE);
        const y = origin.y + Math.floor(index / CHUNK_SIZE);
        chunk.hash = xorWord(chunk.hash, xorWord(tileHash(x, y, before), tileHash(x, y, colour)));
      }
      chunk.tiles[index] = colour;
      changed.push(index);
    }
    if (changed.length > 0) this.onChange(chunk.id, changed);
  }
}

function isBehind(c: Chunk): boolean {
  return c.held < c.sent || c.blank;
}

function endOf(section: Section, start: number): number {
  switch (section.kind) {
    case "run":
      return start + section.tiles.length;
    case "patch":
      return start + section.advance;
    case "set":
      return section.sequence;
  }
}
