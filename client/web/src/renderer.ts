// Draws the board into a canvas of the size of the viewport: the sheet it lies on, an overview image where the tiles themselves
// are not followed, the pages of tiles (pages.ts), layers that others add (heat, template), and the marks (marks.ts). Everything
// is snapped to device pixels, so that neither seams nor blur show.

import type { Board } from "./board.ts";
import { ZOOM_AIM, type Camera } from "./camera.ts";
import { css, display, isLight, word, type ColourMode } from "./colours.ts";
import { CHUNK_SIZE, chunkCol, chunkRow } from "./grid.ts";
import { drawGrid, drawMarks, drawSymbols, emptyScene, type Scene } from "./marks.ts";
import { Pages, PAGE_SIZE, reductionFor } from "./pages.ts";
import type { Settings } from "./settings.ts";

/** Draws something of its own over the tiles and under the grid. */
export type Layer = (ctx: CanvasRenderingContext2D, camera: Camera, settings: Settings) => void;

/** Colours that come from the style sheet. */
interface Theme {
  readonly backdrop: string;
  readonly unknown: string;
  readonly edge: string;
}

export class Renderer {
  readonly scene: Scene = emptyScene();
  readonly layers: Layer[] = [];
  /** The whole board in small, for where its tiles are not followed; null: none. */
  overview: CanvasImageSource | null = null;

  readonly #canvas: HTMLCanvasElement;
  readonly #context: CanvasRenderingContext2D;
  readonly #board: Board;
  readonly #camera: Camera;
  readonly #pages: Pages;
  #mode: ColourMode = "painted";
  #shown = ""; // the colours and size that the pages were painted with
  #colours: string[] = []; // as shown
  #light: boolean[] = [];
  #theme: Theme;

  constructor(canvas: HTMLCanvasElement, board: Board, camera: Camera) {
    const context = canvas.getContext("2d", { alpha: false });
    if (context === null) throw new Error("this browser has no 2D canvas");
    this.#canvas = canvas;
    this.#context = context;
    this.#board = board;
    this.#camera = camera;
    this.#pages = new Pages(board);
    this.#theme = readTheme();
  }

  /** Called when something that is in view has changed and a frame is due. */
  onDirty: () => void = () => {};

  /** The colours of the palette as they are shown, as CSS. */
  get colours(): readonly string[] {
    return this.#colours;
  }

  /** Takes the colours of the style sheet anew: light or dark. */
  restyle(): void {
    this.#theme = readTheme();
    this.onDirty();
  }

  /** Shows colours in another way. */
  setMode(mode: ColourMode): void {
    this.#mode = mode;
    if (this.scene.settings !== null) this.setSettings(this.scene.settings);
  }

  /** Takes new settings: another palette or size paints every page anew. */
  setSettings(s: Settings): void {
    this.scene.settings = s;
    const colours = s.palette.map((e) => display(e.rgb, this.#mode));
    const shown = `${s.width} ${s.height} ${colours.join()}`;
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.#colours = colours.map(css);
    this.#light = colours.map(isLight);
    this.#pages.setColours(this.#colours, colours.map(word));
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
    this.#pages.mark(chunk, tiles);
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

  /** Draws one frame; true when another is due in a moment although nothing will have changed. */
  draw(nowMs: number): boolean {
    const { settings, ready, grid, symbols } = this.scene;
    const ctx = this.#context;
    ctx.fillStyle = this.#theme.backdrop;
    ctx.fillRect(0, 0, this.#canvas.width, this.#canvas.height);
    if (settings === null) return false;
    this.#drawSheet(settings);
    if (!ready) return false;
    this.#drawPages(settings, nowMs);
    for (const layer of this.layers) layer(ctx, this.#camera, settings);
    if (symbols) drawSymbols(ctx, this.#camera, settings, this.#board, this.#light);
    if (grid && this.#camera.view.zoom >= ZOOM_AIM) drawGrid(ctx, this.#camera, settings);
    drawMarks(ctx, this.#camera, this.scene, this.#colours);
    return this.#pages.takeLate();
  }

  /** The empty sheet that the board lies on, or the overview of the board. */
  #drawSheet(s: Settings): void {
    const c = this.#camera;
    const ctx = this.#context;
    const [x0, y0, x1, y1] = [c.deviceX(0), c.deviceY(0), c.deviceX(s.width), c.deviceY(s.height)];
    const edge = Math.max(1, Math.round(c.ratio));
    ctx.fillStyle = this.#theme.edge;
    ctx.fillRect(x0 - edge, y0 - edge, x1 - x0 + 2 * edge, y1 - y0 + 2 * edge);
    ctx.fillStyle = this.#theme.unknown;
    ctx.fillRect(x0, y0, x1 - x0, y1 - y0);
    if (this.overview === null) return;
    ctx.imageSmoothingEnabled = true;
    ctx.drawImage(this.overview, x0, y0, x1 - x0, y1 - y0);
  }

  #drawPages(s: Settings, nowMs: number): void {
    const c = this.#camera;
    const ctx = this.#context;
    const deviceZoom = c.view.zoom * c.ratio;
    const by = reductionFor(deviceZoom);
    ctx.imageSmoothingEnabled = deviceZoom < 1;
    ctx.imageSmoothingQuality = "medium";
    const from = c.toBoard(0, 0);
    const to = c.toBoard(c.width, c.height);
    const first = (v: number) => Math.max(0, Math.floor(v / PAGE_SIZE));
    const last = (v: number, side: number) => Math.min(Math.ceil(side / PAGE_SIZE), Math.ceil(v / PAGE_SIZE));
    let drawn = 0;
    for (let row = first(from.y); row < last(to.y, s.height); row++) {
      for (let col = first(from.x); col < last(to.x, s.width); col++) {
        const picture = this.#pages.picture(col, row, by, nowMs);
        if (picture === null) continue;
        const [x, y] = [col * PAGE_SIZE, row * PAGE_SIZE];
        const width = Math.min(PAGE_SIZE, s.width - x);
        const height = Math.min(PAGE_SIZE, s.height - y);
        const shrink = picture.width / PAGE_SIZE;
        const [x0, y0] = [c.deviceX(x), c.deviceY(y)];
        ctx.drawImage(picture, 0, 0, width * shrink, height * shrink, x0, y0, c.deviceX(x + width) - x0, c.deviceY(y + height) - y0);
        drawn++;
      }
    }
    this.#pages.trim(drawn);
  }
}

function readTheme(): Theme {
  const style = getComputedStyle(document.documentElement);
  const value = (name: string, otherwise: string) => style.getPropertyValue(name).trim() || otherwise;
  return {
    backdrop: value("--backdrop", "#dfe3ea"), unknown: value("--unknown", "#f4f5f7"), edge: value("--edge", "#b9c0cc"),
  };
}
