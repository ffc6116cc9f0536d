// Draws the board into a canvas of the size of the viewport. The colours live in the board; here they are painted into pages
// of 250x250 tiles, of which only the chunks that changed and are in view are painted again, and the pages are then drawn into
// the viewport, snapped to device pixels so that neither seams nor blur show. Nothing is read back from a canvas.

import type { Board } from "./board.ts";
import type { Camera } from "./camera.ts";
import { ZOOM_AIM } from "./camera.ts";
import { CHUNK_SIZE, CHUNKS_SIDE_MAX, chunkCol, chunkID, chunkRow, rectHas, type Point } from "./grid.ts";
import type { Settings } from "./settings.ts";

const PAGE_CHUNKS = 5; // along a side
const PAGE_SIZE = PAGE_CHUNKS * CHUNK_SIZE; // tiles
/** Pages that are kept although out of view. */
const PAGES_KEPT_MAX = 96;
/** Up to so many changed tiles of a chunk are painted one by one. */
const SINGLE_TILES_MAX = 64;

/** A tile with a colour of its own over the board. */
export interface Mark extends Point {
  readonly colour: number;
}

/** What is drawn beside the tiles. */
export interface Scene {
  settings: Settings | null;
  ready: boolean; // there is a board to show
  pending: readonly Mark[];
  hover: Point | null; // the tile under the mouse
  selected: Point | null;
  aim: Mark | null; // where the colour in hand would go
}

interface Page {
  readonly canvas: HTMLCanvasElement;
  readonly context: CanvasRenderingContext2D;
  readonly dirty: Map<number, number[] | null>; // chunks to paint: some tiles, or null for all
}

/** Colours that come from the style sheet. */
interface Theme {
  readonly backdrop: string;
  readonly unknown: string;
  readonly edge: string;
}

export class Renderer {
  readonly scene: Scene = { settings: null, ready: false, pending: [], hover: null, selected: null, aim: null };

  readonly #canvas: HTMLCanvasElement;
  readonly #context: CanvasRenderingContext2D;
  readonly #board: Board;
  readonly #camera: Camera;
  readonly #pages = new Map<number, Page>(); // by row * 256 + column, in pages; the least recently drawn first
  readonly #pixels = new ImageData(CHUNK_SIZE, CHUNK_SIZE);
  readonly #pixelWords = new Uint32Array(this.#pixels.data.buffer);
  readonly #colourWords = new Uint32Array(256); // 0xAABBGGRR
  #colours: string[] = [];
  #theme: Theme;

  constructor(canvas: HTMLCanvasElement, board: Board, camera: Camera) {
    const context = canvas.getContext("2d", { alpha: false });
    if (context === null) throw new Error("this browser has no 2D canvas");
    this.#canvas = canvas;
    this.#context = context;
    this.#board = board;
    this.#camera = camera;
    this.#theme = readTheme();
  }

  /** Called when something that is in view has changed and a frame is due. */
  onDirty: () => void = () => {};

  /** Takes the colours of the style sheet anew: light or dark. */
  restyle(): void {
    this.#theme = readTheme();
    this.onDirty();
  }

  /** Takes new settings: another palette or size paints every page anew. */
  setSettings(s: Settings): void {
    const colours = s.palette.map((e) => "#" + e.rgb.toString(16).padStart(6, "0"));
    const old = this.scene.settings;
    const same = old !== null && old.width === s.width && old.height === s.height && colours.join() === this.#colours.join();
    this.scene.settings = s;
    if (same) return;
    this.#colours = colours;
    this.#colourWords.fill(0xffff00ff); // a colour that no palette entry names: loud, and never seen
    s.palette.forEach((e, i) => {
      this.#colourWords[i] = (0xff000000 | ((e.rgb & 0xff) << 16) | (e.rgb & 0xff00) | (e.rgb >> 16)) >>> 0;
    });
    for (const id of [...this.#pages.keys()]) this.#drop(id);
    this.onDirty();
  }

  /** Gives the canvas its size in device pixels. */
  resize(deviceWidth: number, deviceHeight: number): void {
    if (this.#canvas.width !== deviceWidth) this.#canvas.width = deviceWidth;
    if (this.#canvas.height !== deviceHeight) this.#canvas.height = deviceHeight;
    this.onDirty();
  }

  /** Notes that some tiles of a chunk, or with null all of them, have changed. */
  markChunk(chunk: number, tiles: readonly number[] | null): void {
    const page = this.#pages.get(pageOf(chunk));
    if (page !== undefined) {
      const list = page.dirty.get(chunk);
      if (tiles === null || list === null || (list?.length ?? 0) + tiles.length > SINGLE_TILES_MAX) page.dirty.set(chunk, null);
      else if (list === undefined) page.dirty.set(chunk, [...tiles]);
      else list.push(...tiles);
    }
    if (this.#inView(chunk)) this.onDirty();
  }

  #inView(chunk: number): boolean {
    const c = this.#camera;
    const x = chunkCol(chunk) * CHUNK_SIZE;
    const y = chunkRow(chunk) * CHUNK_SIZE;
    const from = c.toBoard(0, 0);
    const to = c.toBoard(c.width, c.height);
    return x < to.x && y < to.y && x + CHUNK_SIZE > from.x && y + CHUNK_SIZE > from.y;
  }

  /** Draws one frame. */
  draw(): void {
    const { settings } = this.scene;
    const ctx = this.#context;
    ctx.fillStyle = this.#theme.backdrop;
    ctx.fillRect(0, 0, this.#canvas.width, this.#canvas.height);
    if (settings === null) return;
    this.#drawSheet(settings);
    if (!this.scene.ready) return;
    this.#drawPages(settings);
    if (this.#camera.view.zoom >= ZOOM_AIM) this.#drawGrid(settings);
    this.#drawMarks();
  }

  /** The empty sheet that the board lies on. */
  #drawSheet(s: Settings): void {
    const c = this.#camera;
    const ctx = this.#context;
    const [x0, y0, x1, y1] = [c.deviceX(0), c.deviceY(0), c.deviceX(s.width), c.deviceY(s.height)];
    const edge = Math.max(1, Math.round(c.ratio));
    ctx.fillStyle = this.#theme.edge;
    ctx.fillRect(x0 - edge, y0 - edge, x1 - x0 + 2 * edge, y1 - y0 + 2 * edge);
    ctx.fillStyle = this.#theme.unknown;
    ctx.fillRect(x0, y0, x1 - x0, y1 - y0);
  }

  #drawPages(s: Settings): void {
    const c = this.#camera;
    const ctx = this.#context;
    const deviceZoom = c.view.zoom * c.ratio;
    ctx.imageSmoothingEnabled = deviceZoom < 1;
    ctx.imageSmoothingQuality = "medium";
    const from = c.toBoard(0, 0);
    const to = c.toBoard(c.width, c.height);
    const first = (v: number) => Math.max(0, Math.floor(v / PAGE_SIZE));
    const last = (v: number, side: number) => Math.min(Math.ceil(side / PAGE_SIZE), Math.ceil(v / PAGE_SIZE));
    let drawn = 0;
    for (let row = first(from.y); row < last(to.y, s.height); row++) {
      for (let col = first(from.x); col < last(to.x, s.width); col++) {
        const page = this.#page(col, row);
        if (page === null) continue;
        this.#paint(page);
        const [x, y] = [col * PAGE_SIZE, row * PAGE_SIZE];
        const width = Math.min(PAGE_SIZE, s.width - x);
        const height = Math.min(PAGE_SIZE, s.height - y);
        const [x0, y0] = [c.deviceX(x), c.deviceY(y)];
        ctx.drawImage(page.canvas, 0, 0, width, height, x0, y0, c.deviceX(x + width) - x0, c.deviceY(y + height) - y0);
        drawn++;
      }
    }
    for (const id of this.#pages.keys()) {
      if (this.#pages.size <= drawn + PAGES_KEPT_MAX) break;
      this.#drop(id);
    }
  }

  /** The page at a column and row of pages, new or kept; null when none of its chunks is followed. */
  #page(col: number, row: number): Page | null {
    const id = (row << 8) | col;
    const kept = this.#pages.get(id);
    if (kept !== undefined) {
      this.#pages.delete(id);
      this.#pages.set(id, kept);
      return kept;
    }
    const dirty = new Map<number, null>();
    for (let r = row * PAGE_CHUNKS; r < Math.min(CHUNKS_SIDE_MAX, (row + 1) * PAGE_CHUNKS); r++) {
      for (let q = col * PAGE_CHUNKS; q < Math.min(CHUNKS_SIDE_MAX, (col + 1) * PAGE_CHUNKS); q++) dirty.set(chunkID(q, r), null);
    }
    if (![...dirty.keys()].some((chunk) => rectHas(this.#board.scope, chunk))) return null;
    const canvas = document.createElement("canvas");
    canvas.width = PAGE_SIZE;
    canvas.height = PAGE_SIZE;
    const context = canvas.getContext("2d");
    if (context === null) return null;
    const page: Page = { canvas, context, dirty };
    this.#pages.set(id, page);
    return page;
  }

  #drop(id: number): void {
    const page = this.#pages.get(id);
    if (page === undefined) return;
    page.canvas.width = page.canvas.height = 0; // gives its memory back at once
    this.#pages.delete(id);
  }

  #paint(page: Page): void {
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
        if (colours === null) this.#pixelWords.fill(this.#colourWords[0]!);
        else for (let i = 0; i < colours.length; i++) this.#pixelWords[i] = this.#colourWords[colours[i]!]!;
        page.context.putImageData(this.#pixels, left, top);
      } else {
        page.context.clearRect(left, top, CHUNK_SIZE, CHUNK_SIZE);
      }
    }
    page.dirty.clear();
  }

  #drawGrid(s: Settings): void {
    const c = this.#camera;
    const ctx = this.#context;
    const from = c.toBoard(0, 0);
    const to = c.toBoard(c.width, c.height);
    const x0 = Math.max(0, Math.floor(from.x));
    const y0 = Math.max(0, Math.floor(from.y));
    const x1 = Math.min(s.width, Math.ceil(to.x));
    const y1 = Math.min(s.height, Math.ceil(to.y));
    const line = Math.max(1, Math.round(c.ratio / 2));
    ctx.fillStyle = "rgba(110,120,135,.22)";
    const [top, height] = [c.deviceY(y0), c.deviceY(y1) - c.deviceY(y0)];
    for (let x = x0 + 1; x < x1; x++) ctx.fillRect(c.deviceX(x), top, line, height);
    const [left, width] = [c.deviceX(x0), c.deviceX(x1) - c.deviceX(x0)];
    for (let y = y0 + 1; y < y1; y++) ctx.fillRect(left, c.deviceY(y), width, line);
  }

  #drawMarks(): void {
    const { pending, hover, selected, aim } = this.scene;
    if (aim !== null && this.#camera.view.zoom >= ZOOM_AIM) this.#fillTile(aim, aim.colour, 0.7);
    for (const p of pending) this.#fillTile(p, p.colour, 1);
    if (hover !== null) this.#ring(hover, 1, false);
    if (selected !== null) this.#ring(selected, 2, false);
    for (const p of pending) this.#ring(p, 2, true);
  }

  #fillTile(p: Point, colour: number, alpha: number): void {
    const c = this.#camera;
    const [x, y] = [c.deviceX(p.x), c.deviceY(p.y)];
    this.#context.globalAlpha = alpha;
    this.#context.fillStyle = this.#colours[colour] ?? "#f0f";
    this.#context.fillRect(x, y, c.deviceX(p.x + 1) - x, c.deviceY(p.y + 1) - y);
    this.#context.globalAlpha = 1;
  }

  /** A ring around a tile that shows on every colour: white within black; dashed for what is on its way. Never below 10 px. */
  #ring(p: Point, px: number, dashed: boolean): void {
    const c = this.#camera;
    const ctx = this.#context;
    const x0 = c.deviceX(p.x);
    const y0 = c.deviceY(p.y);
    const side = Math.max(c.deviceX(p.x + 1) - x0, 10 * c.ratio);
    const grow = (side - (c.deviceX(p.x + 1) - x0)) / 2;
    const line = px * c.ratio;
    ctx.lineWidth = line;
    for (const [colour, out] of [["rgba(10,12,16,.9)", line * 1.5], ["#fff", line / 2]] as const) {
      ctx.strokeStyle = colour;
      ctx.setLineDash(dashed && colour === "#fff" ? [3 * c.ratio, 3 * c.ratio] : []);
      ctx.strokeRect(x0 - grow - out, y0 - grow - out, side + 2 * out, side + 2 * out);
    }
    ctx.setLineDash([]);
  }
}

function pageOf(chunk: number): number {
  return (Math.floor(chunkRow(chunk) / PAGE_CHUNKS) << 8) | Math.floor(chunkCol(chunk) / PAGE_CHUNKS);
}

function readTheme(): Theme {
  const style = getComputedStyle(document.documentElement);
  const value = (name: string, otherwise: string) => style.getPropertyValue(name).trim() || otherwise;
  return {
    backdrop: value("--backdrop", "#dfe3ea"), unknown: value("--unknown", "#f4f5f7"), edge: value("--edge", "#b9c0cc"),
  };
}
