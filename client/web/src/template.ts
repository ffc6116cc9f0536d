// A template: a picture to paint after, as tiles of the palette at a place of the board. Pure: it knows no canvas.

import type { PaletteEntry } from "./settings.ts";

/** A tile that the template says nothing of. */
export const NO_COLOUR = -1;
/** Below this alpha a pixel says nothing. */
const ALPHA_MIN = 128;

/** What a template is compared with. */
export interface Painted {
  colourAt(x: number, y: number): number;
}

/** The open palette colour next to each pixel (RGBA), or NO_COLOUR where the picture is transparent. */
export function matchPixels(pixels: Uint8ClampedArray, palette: readonly PaletteEntry[]): Int16Array {
  const out = new Int16Array(pixels.length / 4).fill(NO_COLOUR);
  const known = new Map<number, number>();
  for (let i = 0; i < out.length; i++) {
    if (pixels[4 * i + 3]! < ALPHA_MIN) continue;
    const rgb = (pixels[4 * i]! << 16) | (pixels[4 * i + 1]! << 8) | pixels[4 * i + 2]!;
    let colour = known.get(rgb);
    if (colour === undefined) known.set(rgb, (colour = nearest(rgb, palette)));
    out[i] = colour;
  }
  return out;
}

function nearest(rgb: number, palette: readonly PaletteEntry[]): number {
  let best = NO_COLOUR;
  let least = Infinity;
  palette.forEach((e, i) => {
    if (e.closed) return;
    // Eyes weigh green most and blue least.
    const d = 2 * ((rgb >> 16) - (e.rgb >> 16)) ** 2 + 4 * (((rgb >> 8) & 255) - ((e.rgb >> 8) & 255)) ** 2 + 3 * ((rgb & 255) - (e.rgb & 255)) ** 2;
    if (d >= least) return;
    least = d;
    best = i;
  });
  return best;
}

export interface Progress {
  readonly right: number;
  readonly all: number;
}

export class Template {
  readonly width: number;
  readonly height: number;
  readonly tiles: Int16Array;
  x: number;
  y: number;
  #next = 0; // where the next count goes on
  #right = 0;
  #all = 0;

  constructor(width: number, height: number, tiles: Int16Array, x: number, y: number) {
    this.width = width;
    this.height = height;
    this.tiles = tiles;
    this.x = x;
    this.y = y;
  }

  /** Counts on by up to `most` tiles; the result when a count is complete, and null while it is not. */
  count(board: Painted, most: number): Progress | null {
    const end = Math.min(this.tiles.length, this.#next + most);
    for (; this.#next < end; this.#next++) {
      const wanted = this.tiles[this.#next]!;
      if (wanted === NO_COLOUR) continue;
      this.#all++;
      if (board.colourAt(this.x + (this.#next % this.width), this.y + Math.floor(this.#next / this.width)) === wanted) this.#right++;
    }
    if (this.#next < this.tiles.length) return null;
    const progress = { right: this.#right, all: this.#all };
    this.#next = this.#right = this.#all = 0;
    return progress;
  }

  /** The next tile that is not as the template wants it, beginning behind the one named last; null when all are right. */
  nextWrong(board: Painted, after: { readonly x: number; readonly y: number } | null): { x: number; y: number; colour: number } | null {
    const from = after === null ? -1 : (after.y - this.y) * this.width + (after.x - this.x);
    for (let n = 1; n <= this.tiles.length; n++) {
      const i = (((from + n) % this.tiles.length) + this.tiles.length) % this.tiles.length;
      const wanted = this.tiles[i]!;
      const [x, y] = [this.x + (i % this.width), this.y + Math.floor(i / this.width)];
      if (wanted !== NO_COLOUR && board.colourAt(x, y) !== wanted) return { x, y, colour: wanted };
    }
    return null;
  }
}

/** What a link says of a template. */
export interface TemplateLink {
  readonly src: string;
  readonly x: number;
  readonly y: number;
}

/** Reads the template of a hash; null without one. */
export function parseTemplate(rest: string): TemplateLink | null {
  const q = new URLSearchParams(rest.replace(/^&/, ""));
  const [src, x, y] = [q.get("template"), Number(q.get("tx")), Number(q.get("ty"))];
  if (src === null || src === "" || !Number.isInteger(x) || !Number.isInteger(y) || x < 0 || y < 0 || x > 9999 || y > 9999) return null;
  return { src, x, y };
}

/** What follows the view in a hash that has a template. */
export function formatTemplate(t: TemplateLink): string {
  return `&template=${encodeURIComponent(t.src)}&tx=${t.x}&ty=${t.y}`;
}

/** Whether a page may show a picture from there: its own host's, or one that the link itself holds. */
export function mayLoad(src: string, base: string): boolean {
  if (/^data:image\/(png|gif|webp|jpeg|bmp);base64,/.test(src)) return true;
  try {
    return new URL(src, base).origin === new URL(base).origin && !/^(data|blob|javascript):/i.test(src);
  } catch {
    return false;
  }
}
