// A node in a few lines, for tests of the board and the session: per chunk the list of all placements, how far the frames of the
// one session have come, and answers made from these. It keeps to the protocol and has none of a node's machinery.

import { CHUNK_TILES, rectChunks, rectHas, type ChunkRect } from "../src/grid.ts";
import { sequenceHash, tilesHash, xorWord, ZERO_WORD, type Word } from "../src/hash.ts";
import type { BoardBody, ChunkAt, ChunkHash, Frame, Section } from "../src/wire.ts";

export const EPOCH: Word = { hi: 1, lo: 2 };

export class Model {
  epoch = EPOCH;
  incarnation: Word = { hi: 3, lo: 4 };
  tick = 100;
  width = 200;
  height = 150;
  readonly logs = new Map<number, (readonly [index: number, colour: number])[]>();
  /** Where the frames of the session stand, per chunk. */
  readonly told = new Map<number, number>();
  readonly #random: () => number;

  constructor(random: () => number) {
    this.#random = random;
  }

  int(below: number): number {
    return Math.floor(this.#random() * below);
  }

  place(chunk: number, index: number, colour: number): number {
    let log = this.logs.get(chunk);
    if (log === undefined) this.logs.set(chunk, (log = []));
    log.push([index, colour]);
    return log.length;
  }

  /** Places n tiles anywhere in a rectangle of chunks, few enough indexes that they often meet. */
  placeSome(n: number, rect: ChunkRect): void {
    const chunks = [...rectChunks(rect)];
    for (let i = 0; i < n; i++) this.place(chunks[this.int(chunks.length)]!, this.int(3) === 0 ? this.int(CHUNK_TILES) : this.int(12), this.int(16));
  }

  tiles(chunk: number, upTo = Infinity): Uint8Array {
    const tiles = new Uint8Array(CHUNK_TILES);
    (this.logs.get(chunk) ?? []).slice(0, upTo === Infinity ? undefined : upTo).forEach(([i, c]) => (tiles[i] = c));
    return tiles;
  }

  sequence(chunk: number): number {
    return this.logs.get(chunk)?.length ?? 0;
  }

  /** A run, patch or image from one sequence to another. */
  section(chunk: number, from: number, to: number, repair: boolean): Section {
    const start = repair ? from : null;
    const part = this.logs.get(chunk)!.slice(from, to);
    const kind = this.int(4);
    if (kind === 0) return { kind: "set", chunk, sequence: to, image: this.tiles(chunk, to) };
    if (kind === 1) {
      const last = new Map(part);
      return { kind: "patch", chunk, start, advance: part.length, tiles: Uint32Array.from([...last], ([i, c]) => (i << 8) | c) };
    }
    return { kind: "run", chunk, start, tiles: Uint32Array.from(part, ([i, c]) => (i << 8) | c) };
  }

  /** The frame of the next tick: everything that the session has not been told. */
  frame(repair = false): Frame {
    if (!repair) this.tick++;
    const sections: Section[] = [];
    for (const chunk of [...this.logs.keys()].sort((a, b) => a - b)) {
      const from = this.told.get(chunk) ?? 0;
      const to = this.sequence(chunk);
      if (from === to) continue;
      sections.push(this.section(chunk, from, to, repair));
      this.told.set(chunk, to);
    }
    return { type: "frame", tick: this.tick, repair, sections };
  }

  /** What the session has been told since, as the repair that ends a lag. */
  since(before: ReadonlyMap<number, number>): Frame {
    const sections = [...this.told].sort((a, b) => a[0] - b[0]).flatMap(([chunk, to]) => {
      const from = before.get(chunk) ?? 0;
      return from === to ? [] : [this.section(chunk, from, to, true)];
    });
    return { type: "frame", tick: this.tick, repair: true, sections };
  }

  base(): ChunkAt[] {
    for (const [chunk, log] of this.logs) this.told.set(chunk, log.length);
    return this.chunksAt();
  }

  chunksAt(): ChunkAt[] {
    return [...this.logs].map(([chunk, log]) => ({ chunk, sequence: log.length })).sort((a, b) => a.chunk - b.chunk);
  }

  /** The answer to a repair: from what the client holds to where the session's frames stand. */
  repair(chunks: readonly ChunkAt[]): Frame {
    const sections: Section[] = [];
    for (const { chunk, sequence } of chunks) {
      const to = this.told.get(chunk) ?? 0;
      if (sequence === to) continue;
      sections.push(
        sequence > to || to - sequence > 40 ? { kind: "set", chunk, sequence: to, image: this.tiles(chunk, to) } : this.section(chunk, sequence, to, true),
      );
    }
    return { type: "frame", tick: this.tick, repair: true, sections };
  }

  body(): BoardBody {
    const chunks = this.chunksAt().map((c) => ({ ...c, image: this.tiles(c.chunk) }));
    return { epoch: this.epoch, incarnation: this.incarnation, tick: this.tick, width: this.width, height: this.height, chunks };
  }

  hashes(rect: ChunkRect): { tiles: Word; sequences: Word } {
    let tiles = ZERO_WORD;
    let sequences = ZERO_WORD;
    for (const c of this.chunkHashes(rect)) {
      tiles = xorWord(tiles, c.tiles);
      sequences = xorWord(sequences, sequenceHash(c.chunk, c.sequence));
    }
    return { tiles, sequences };
  }

  /** The hashes of what the session has been told. */
  chunkHashes(rect: ChunkRect): ChunkHash[] {
    return [...this.told]
      .filter(([chunk]) => rectHas(rect, chunk))
      .map(([chunk, sequence]) => ({ chunk, sequence, tiles: tilesHash(chunk, this.tiles(chunk, sequence)) }))
      .sort((a, b) => a.chunk - b.chunk);
  }
}
