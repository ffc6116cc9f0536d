// The loupe: what a finger covers, magnified, for choosing the tile exactly. Its middle is the chosen tile. Dragging moves the
// board under it, a tap takes another tile, and with the keyboard on it the arrow keys do.

import { element } from "./dom.ts";
import type { Point } from "./grid.ts";

/** Tiles along a side of the loupe, an odd number. */
const TILES = 7;
/** Beyond this a press is a drag, px. */
const TAP_PX = 5;

export interface LoupeEvents {
  /** The chosen tile moves by so many tiles. */
  nudge(dx: number, dy: number): void;
  /** The colour to show at a tile, as CSS; null off the board. */
  colour(tile: Point): string | null;
}

export class Loupe {
  readonly #canvas = element("loupe", HTMLCanvasElement);
  readonly #context: CanvasRenderingContext2D | null;
  readonly #events: LoupeEvents;
  #at: Point | null = null;
  #brush: string | null = null;

  constructor(events: LoupeEvents) {
    this.#events = events;
    this.#context = this.#canvas.getContext("2d");
    this.#canvas.addEventListener("pointerdown", (e) => this.#press(e));
    this.#canvas.addEventListener("keydown", (e) => {
      const step = ({ ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] } as Record<string, [number, number]>)[e.key];
      if (step === undefined) return;
      e.preventDefault();
      events.nudge(step[0], step[1]);
    });
  }

  /** Shows the surroundings of a tile, with the colour in hand on it; null hides the loupe. */
  show(at: Point | null, brush: string | null): void {
    this.#at = at;
    this.#brush = brush;
    this.#canvas.hidden = at === null;
    if (at !== null) this.draw();
  }

  draw(): void {
    const at = this.#at;
    const ctx = this.#context;
    if (at === null || ctx === null) return;
    const side = Math.round((this.#canvas.clientWidth || 126) * devicePixelRatio);
    if (this.#canvas.width !== side) this.#canvas.width = this.#canvas.height = side;
    const middle = (TILES - 1) / 2;
    const edge = (i: number) => Math.round((i * side) / TILES);
    ctx.clearRect(0, 0, side, side);
    for (let row = 0; row < TILES; row++) {
      for (let col = 0; col < TILES; col++) {
        const own = col === middle && row === middle ? this.#brush : null;
        const colour = own ?? this.#events.colour({ x: at.x + col - middle, y: at.y + row - middle });
        if (colour === null) continue;
        ctx.fillStyle = colour;
        ctx.fillRect(edge(col), edge(row), edge(col + 1) - edge(col), edge(row + 1) - edge(row));
      }
    }
    const [from, to] = [edge(middle), edge(middle + 1)];
    for (const [style, grow, line] of [["#000", 2, 4], ["#fff", 1, 2]] as const) {
      ctx.strokeStyle = style;
      ctx.lineWidth = line * devicePixelRatio;
      ctx.strokeRect(from - grow, from - grow, to - from + 2 * grow, to - from + 2 * grow);
    }
  }

  #press(e: PointerEvent): void {
    this.#canvas.setPointerCapture(e.pointerId);
    const tilePx = this.#canvas.clientWidth / TILES;
    const from = { px: e.clientX, py: e.clientY };
    let moved = { dx: 0, dy: 0 };
    let dragged = false;
    const move = (m: PointerEvent) => {
      const [px, py] = [m.clientX - from.px, m.clientY - from.py];
      dragged ||= Math.hypot(px, py) > TAP_PX;
      if (!dragged) return;
      const to = { dx: -Math.round(px / tilePx), dy: -Math.round(py / tilePx) };
      if (to.dx !== moved.dx || to.dy !== moved.dy) this.#events.nudge(to.dx - moved.dx, to.dy - moved.dy);
      moved = to;
    };
    const up = (u: PointerEvent) => {
      this.#canvas.removeEventListener("pointermove", move);
      this.#canvas.removeEventListener("pointerup", up);
      this.#canvas.removeEventListener("pointercancel", up);
      if (dragged || u.type !== "pointerup") return;
      const box = this.#canvas.getBoundingClientRect();
      const middle = (TILES - 1) / 2;
      this.#events.nudge(Math.floor((u.clientX - box.left) / tilePx) - middle, Math.floor((u.clientY - box.top) / tilePx) - middle);
    };
    this.#canvas.addEventListener("pointermove", move);
    this.#canvas.addEventListener("pointerup", up);
    this.#canvas.addEventListener("pointercancel", up);
  }
}
