// What is drawn over the tiles: the grid, symbols for those who cannot tell colours apart, rings around tiles, tiles that are on
// their way.

import { ZOOM_AIM, type Camera } from "./camera.ts";
import type { Board } from "./board.ts";
import type { Point } from "./grid.ts";
import type { Settings } from "./settings.ts";

/** A tile with a colour of its own over the board. */
export interface Mark extends Point {
  readonly colour: number;
}

/** What is drawn beside the tiles. */
export interface Scene {
  settings: Settings | null;
  ready: boolean; // there is a board to show
  grid: boolean;
  symbols: boolean;
  pending: readonly Mark[];
  armed: Mark | null; // waits for the cooldown's end
  hover: Point | null; // the tile under the mouse
  cursor: Point | null; // the tile that the keyboard is on
  selected: Point | null;
  aim: Mark | null; // where the colour in hand would go
}

export function emptyScene(): Scene {
  return {
    settings: null, ready: false, grid: true, symbols: false, pending: [], armed: null, hover: null, cursor: null, selected: null, aim: null,
  };
}

/** From this zoom on symbols are legible, px per tile. */
const ZOOM_SYMBOLS = 16;
/** What stands for colours, in the order of the palette; then two digits. */
const SYMBOLS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

export function symbolOf(colour: number): string {
  return SYMBOLS[colour] ?? String(colour);
}

/** The part of the board in view, in whole tiles: from the first up to the last, exclusive. */
function inView(c: Camera, s: Settings): { x0: number; y0: number; x1: number; y1: number } {
  const from = c.toBoard(0, 0);
  const to = c.toBoard(c.width, c.height);
  return {
    x0: Math.max(0, Math.floor(from.x)), y0: Math.max(0, Math.floor(from.y)), x1: Math.min(s.width, Math.ceil(to.x)), y1: Math.min(s.height, Math.ceil(to.y)),
  };
}

export function drawGrid(ctx: CanvasRenderingContext2D, c: Camera, s: Settings): void {
  const { x0, y0, x1, y1 } = inView(c, s);
  const line = Math.max(1, Math.round(c.ratio / 2));
  ctx.fillStyle = "rgba(110,120,135,.22)";
  const [top, height] = [c.deviceY(y0), c.deviceY(y1) - c.deviceY(y0)];
  for (let x = x0 + 1; x < x1; x++) ctx.fillRect(c.deviceX(x), top, line, height);
  const [left, width] = [c.deviceX(x0), c.deviceX(x1) - c.deviceX(x0)];
  for (let y = y0 + 1; y < y1; y++) ctx.fillRect(left, c.deviceY(y), width, line);
}

/** Draws the symbol of every tile in view. light tells whether a colour wants dark ink. */
export function drawSymbols(ctx: CanvasRenderingContext2D, c: Camera, s: Settings, board: Board, light: readonly boolean[]): void {
  if (c.view.zoom < ZOOM_SYMBOLS) return;
  const { x0, y0, x1, y1 } = inView(c, s);
  const side = c.view.zoom * c.ratio;
  ctx.font = `${Math.round(side * 0.5)}px system-ui, sans-serif`;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  for (const dark of [true, false]) {
    ctx.fillStyle = dark ? "rgba(0,0,0,.6)" : "rgba(255,255,255,.8)";
    for (let y = y0; y < y1; y++) {
      for (let x = x0; x < x1; x++) {
        const colour = board.colourAt(x, y);
        if ((light[colour] ?? true) === dark) ctx.fillText(symbolOf(colour), c.deviceX(x) + side / 2, c.deviceY(y) + side / 2);
      }
    }
  }
}

export function drawMarks(ctx: CanvasRenderingContext2D, c: Camera, scene: Scene, colours: readonly string[]): void {
  const { pending, armed, hover, cursor, selected, aim } = scene;
  const fill = (p: Mark, alpha: number) => {
    const [x, y] = [c.deviceX(p.x), c.deviceY(p.y)];
    ctx.globalAlpha = alpha;
    ctx.fillStyle = colours[p.colour] ?? "#f0f";
    ctx.fillRect(x, y, c.deviceX(p.x + 1) - x, c.deviceY(p.y + 1) - y);
    ctx.globalAlpha = 1;
  };
  if (aim !== null && c.view.zoom >= ZOOM_AIM) fill(aim, 0.7);
  if (armed !== null) fill(armed, 0.7);
  for (const p of pending) fill(p, 1);
  if (hover !== null) ring(ctx, c, hover, 1, false);
  if (selected !== null) ring(ctx, c, selected, 2, false);
  if (cursor !== null) ring(ctx, c, cursor, 3, false);
  if (armed !== null) ring(ctx, c, armed, 2, true);
  for (const p of pending) ring(ctx, c, p, 2, true);
}

/** A ring around a tile that shows on every colour: white within black; dashed for what is on its way. Never below 10 px. */
function ring(ctx: CanvasRenderingContext2D, c: Camera, p: Point, px: number, dashed: boolean): void {
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
