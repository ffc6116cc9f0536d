// The tiles as pictures: pages of 250x250 tiles, painted from the colour indices of the board, of which only the chunks that
// changed are painted again; and for looks from afar the same pages reduced to a half and a fifth. Nothing is ever read back from
// a canvas.

import type { Board } from "./board.ts";
import { CHUNK_SIZE, CHUNKS_SIDE_MAX, chunkCol, chunkID, chunkRow, rectHas } from "./grid.ts";

const PAGE_CHUNKS = 5; // along a side
export const PAGE_SIZE = PAGE_CHUNKS * CHUNK_SIZE; // tiles
/** Pages that are kept although out of view. */
const PAGES_KEPT_MAX = 96;
/** Up to so many changed tiles of a chunk are painted one by one. */
const SINGLE_TILES_MAX = 64;
/** A reduced page is made anew at most so often. */
const REDUCE_PAUSE_MS = 250;

/** Beyond so many changed chunks the page is reduced as one. */
const REDUCE_CHUNKS_MAX = 4;

/** How often a page is reduced: by 1, 2 or 5, which divide a chunk's side. */
export type Reduction = 1 | 2 | 5;

/** The reduction that is at least as fine as the screen: device pixels per tile decide. */
export function reductionFor(deviceZoom: number): Reduction {
  return deviceZoom > 0.5 ? 1 : deviceZoom > 0.2 ? 2 : 5;
}

interface Reduced {
  readonly canvas: HTMLCanvasElement;
  readonly context: CanvasRenderingContext2D;
  readonly dirty: Set<number>;
  madeMs: number;
}

interface Page {
  readonly canvas: HTMLCanvasElement;
  readonly context: CanvasRenderingContext2D;
  readonly dirty: Map<number, number[] | null>; // chunks to paint: some tiles, or null for all
  readonly reduced: Map<Reduction, Reduced>;
}

export class Pages {
  readonly #board: Board;
  readonly #pages = new Map<number, Page>(); // by row * 256 + column, in pages; the least recently drawn first
  readonly #pixels = new ImageData(CHUNK_SIZE, CHUNK_SIZE);
  readonly #pixelWords = new Uint32Array(this.#pixels.data.buffer);
  readonly #words = new Uint32Array(256); // 0xAABBGGRR
  #colours: readonly string[] = [];
  #late = false;

  constructor(board: Board) {
    this.#board = board;
  }

  /** Takes other colours, as CSS and as words of an ImageData: every page is painted anew. */
  setColours(colours: readonly string[], words: readonly number[]): void {
    this.#colours = colours;
    this.#words.fill(0xffff00ff); // a colour that no palette entry names: loud, and never seen
    this.#words.set(words);
    this.clear();
  }

  clear(): void {
    for (const id of [...this.#pages.keys()]) this.#drop(id);
  }

  /** Notes that some tiles of a chunk, or with null all of them, have changed. */
  mark(chunk: number, tiles: readonly number[] | null): void {
    const page = this.#pages.get(pageOf(chunk));
    if (page === undefined) return;
    const list = page.dirty.get(chunk);
    if (tiles === null || list === null || (list?.length ?? 0) + tiles.length > SINGLE_TILES_MAX) page.dirty.set(chunk, null);
    else if (list === undefined) page.dirty.set(chunk, [...tiles]);
    else list.push(...tiles);
  }

  /** Whether a reduced page waits for its pause: somebody should draw again in a moment. Asking forgets it. */
  takeLate(): boolean {
    const late = this.#late;
    this.#late = false;
    return late;
  }

  /** The picture of a page, up to date, or null when none of its chunks is followed. */
  picture(col: number, row: number, by: Reduction, nowMs: number): HTMLCanvasElement | null {
    const page = this.#page(col, row);
    if (page === null) return null;
    const changed = this.#paint(page);
    for (const r of page.reduced.values()) for (const chunk of changed) r.dirty.add(chunk);
    return by === 1 ? page.canvas : this.#reduce(page, by, nowMs);
  }

  /** Lets go of pages that were not drawn lately, when there are more than may be kept beside those drawn. */
  trim(drawn: number): void {
    for (const id of this.#pages.keys()) {
      if (this.#pages.size <= drawn + PAGES_KEPT_MAX) break;
      this.#drop(id);
    }
  }

  #page(col: number, row: number): Page | null {
    const id = (row << 8) | col;
    const kept = this.#pages.get(id);
    if (kept !== undefined) {
      this.#pages.delete(id);
      this.#pages.set(id, kept);
      return kept;
    }
    const dirty = new Map<number, null>();
    for (const chunk of chunksOf(col, row)) dirty.set(chunk, null);
    if (![...dirty.keys()].some((chunk) => rectHas(this.#board.scope, chunk))) return null;
    const made = canvasOf(PAGE_SIZE);
    if (made === null) return null;
    const page: Page = { ...made, dirty, reduced: new Map() };
    this.#pages.set(id, page);
    return page;
  }

  #drop(id: number): void {
    const page = this.#pages.get(id);
    if (page === undefined) return;
    // A canvas without a size gives its memory back at once.
    page.canvas.width = page.canvas.height = 0;
    for (const r of page.reduced.values()) r.canvas.width = r.canvas.height = 0;
    this.#pages.delete(id);
  }

  /** Paints what has changed; returns the chunks that have. */
  #paint(page: Page): number[] {
    if (page.dirty.size === 0) return [];
    const chunks = [...page.dirty.keys()];
    for (const [chunk, tiles] of page.dirty) {
      const left = (chunkCol(chunk) % PAGE_CHUNKS) * CHUNK_SIZE;
      const top = (chunkRow(chunk) % PAGE_CHUNKS) * CHUNK_SIZE;
      const colours = this.#board.tilesOf(chunk);
      if (tiles !== null && colours !== null) {
        for (const i of tiles) {
          page.context.fillStyle = this.#colours[colours[i]!] ?? "#f0f";
          page.context.fillRect(left + (i % CHUNK_SIZE), top + Math.floor(i / CHUNK_SIZE), 1, 1);
        }
      } else if (colours !== null || rectHas(this.#board.scope, chunk)) {
        if (colours === null) this.#pixelWords.fill(this.#words[0]!);
        else for (let i = 0; i < colours.length; i++) this.#pixelWords[i] = this.#words[colours[i]!]!;
        page.context.putImageData(this.#pixels, left, top);
      } else {
        page.context.clearRect(left, top, CHUNK_SIZE, CHUNK_SIZE);
      }
    }
    page.dirty.clear();
    return chunks;
  }

  #reduce(page: Page, by: Reduction, nowMs: number): HTMLCanvasElement {
    let r = page.reduced.get(by);
    if (r === undefined) {
      const made = canvasOf(PAGE_SIZE / by);
      if (made === null) return page.canvas;
      r = { ...made, dirty: new Set(), madeMs: -Infinity };
      r.context.imageSmoothingQuality = "high";
      r.context.drawImage(page.canvas, 0, 0, PAGE_SIZE / by, PAGE_SIZE / by);
      page.reduced.set(by, r);
    }
    if (r.dirty.size === 0) return r.canvas;
    if (nowMs - r.madeMs < REDUCE_PAUSE_MS) {
      this.#late = true;
      return r.canvas;
    }
    r.madeMs = nowMs;
    const side = CHUNK_SIZE / by;
    if (r.dirty.size > REDUCE_CHUNKS_MAX) {
      r.context.clearRect(0, 0, r.canvas.width, r.canvas.height);
      r.context.drawImage(page.canvas, 0, 0, r.canvas.width, r.canvas.height);
      r.dirty.clear();
      return r.canvas;
    }
    for (const chunk of r.dirty) {
      const [col, row] = [chunkCol(chunk) % PAGE_CHUNKS, chunkRow(chunk) % PAGE_CHUNKS];
      r.context.clearRect(col * side, row * side, side, side);
      r.context.drawImage(page.canvas, col * CHUNK_SIZE, row * CHUNK_SIZE, CHUNK_SIZE, CHUNK_SIZE, col * side, row * side, side, side);
    }
    r.dirty.clear();
    return r.canvas;
  }
}

function pageOf(chunk: number): number {
  return (Math.floor(chunkRow(chunk) / PAGE_CHUNKS) << 8) | Math.floor(chunkCol(chunk) / PAGE_CHUNKS);
}

function* chunksOf(col: number, row: number): Generator<number> {
  for (let r = row * PAGE_CHUNKS; r < Math.min(CHUNKS_SIDE_MAX, (row + 1) * PAGE_CHUNKS); r++) {
    for (let q = col * PAGE_CHUNKS; q < Math.min(CHUNKS_SIDE_MAX, (col + 1) * PAGE_CHUNKS); q++) yield chunkID(q, r);
  }
}

function canvasOf(side: number): { canvas: HTMLCanvasElement; context: CanvasRenderingContext2D } | null {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = side;
  const context = canvas.getContext("2d");
  return context === null ? null : { canvas, context };
}
