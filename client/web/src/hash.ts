// The hashes that prove a board: the same formulas as board/hash.go, in 32-bit steps only. A 64-bit value is two unsigned
// halves, so nothing here needs big integers and a tile costs a few multiplications.

import { tileOrigin, CHUNK_SIZE } from "./grid.ts";

/** A 64-bit word as two unsigned 32-bit halves: hashes, epochs, incarnations and nonces. */
export interface Word {
  readonly hi: number;
  readonly lo: number;
}

export const ZERO_WORD: Word = { hi: 0, lo: 0 };

export function sameWord(a: Word, b: Word): boolean {
  return a.hi === b.hi && a.lo === b.lo;
}

export function xorWord(a: Word, b: Word): Word {
  return { hi: (a.hi ^ b.hi) >>> 0, lo: (a.lo ^ b.lo) >>> 0 };
}

/** Sixteen hexadecimal digits, as the server prints such values. */
export function wordText(w: Word): string {
  return w.hi.toString(16).padStart(8, "0") + w.lo.toString(16).padStart(8, "0");
}

const SEED_LOW = 0x9e3779b9;
const SEED_HIGH = 0x7f4a7c15;
const STEP = 0x9e3779b1;

function mix32(h: number): number {
  h ^= h >>> 16;
  h = Math.imul(h, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

function half(seed: number, a: number, b: number): number {
  return mix32((mix32(seed ^ a) + STEP) ^ b);
}

/** One half of a tile's hash; colour 0 hashes to 0, so an untouched board does too. */
function tileHalf(seed: number, x: number, y: number, colour: number): number {
  return colour === 0 ? 0 : half(seed, (y << 16) | x, colour);
}

/** The hash of one tile. */
export function tileHash(x: number, y: number, colour: number): Word {
  return { hi: tileHalf(SEED_HIGH, x, y, colour), lo: tileHalf(SEED_LOW, x, y, colour) };
}

/** The hash of a chunk that stands at a sequence number; zero for sequence 0. */
export function sequenceHash(chunk: number, sequence: number): Word {
  if (sequence === 0) return ZERO_WORD;
  const a = 0x80000000 | chunk;
  const b = (sequence % 2 ** 32 >>> 0) ^ mix32(Math.floor(sequence / 2 ** 32));
  return { hi: half(SEED_HIGH, a, b), lo: half(SEED_LOW, a, b) };
}

/** The XOR of the hashes of a chunk's tiles (2,500 colours, row by row). */
export function tilesHash(chunk: number, tiles: Uint8Array): Word {
  const origin = tileOrigin(chunk);
  let hi = 0;
  let lo = 0;
  for (let i = 0; i < tiles.length; i++) {
    const colour = tiles[i]!;
    if (colour === 0) continue;
    const a = ((origin.y + Math.floor(i / CHUNK_SIZE)) << 16) | (origin.x + (i % CHUNK_SIZE));
    hi ^= half(SEED_HIGH, a, colour);
    lo ^= half(SEED_LOW, a, colour);
  }
  return { hi: hi >>> 0, lo: lo >>> 0 };
}
