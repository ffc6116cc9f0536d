// Where people paint, shown: the heat map as a layer over the tiles, and the camera that follows the action.

import type { Camera } from "./camera.ts";
import { HEAT_CELL, type Heat } from "./heat.ts";
import type { Settings } from "./settings.ts";

/** The picture of the heat is made anew at most so often. */
const HEAT_PAUSE_MS = 250;
/** The camera moves on after so long. */
export const FOLLOW_EVERY_MS = 5000;
/** Heat above this shows as hot as it gets. */
const HEAT_FULL = 12;

/** The layer of the heat map. */
export class HeatLayer {
  on = false;
  readonly #heat: Heat;
  readonly #canvas = document.createElement("canvas");
  #madeMs = -Infinity;
  #warm = false;

  constructor(heat: Heat) {
    this.#heat = heat;
  }

  /** Whether something on it fades, so that it has to be drawn again. */
  get warm(): boolean {
    return this.on && this.#warm;
  }

  draw(ctx: CanvasRenderingContext2D, c: Camera, s: Settings): void {
    if (!this.on) return;
    const now = performance.now();
    if (now - this.#madeMs >= HEAT_PAUSE_MS) this.#make(s, now);
    if (!this.#warm) return;
    ctx.imageSmoothingEnabled = true;
    const [x0, y0] = [c.deviceX(0), c.deviceY(0)];
    ctx.drawImage(this.#canvas, x0, y0, c.deviceX(this.#canvas.width * HEAT_CELL) - x0, c.deviceY(this.#canvas.height * HEAT_CELL) - y0);
  }

  #make(s: Settings, now: number): void {
    this.#madeMs = now;
    const width = Math.ceil(s.width / HEAT_CELL);
    const height = Math.ceil(s.height / HEAT_CELL);
    const ctx = this.#canvas.getContext("2d");
    if (ctx === null) return;
    if (this.#canvas.width !== width || this.#canvas.height !== height) {
      this.#canvas.width = width;
      this.#canvas.height = height;
    }
    const image = ctx.createImageData(width, height);
    const words = new Uint32Array(image.data.buffer);
    this.#warm = false;
    this.#heat.each(now, (col, row, heat) => {
      if (col >= width || row >= height) return;
      this.#warm = true;
      const share = Math.min(1, Math.log1p(heat) / Math.log1p(HEAT_FULL));
      // From amber to red, never opaque: the tiles stay in sight. 0xAABBGGRR.
      words[row * width + col] = ((Math.round(60 + 130 * share) << 24) | (Math.round(150 * (1 - share)) << 8) | 0xff) >>> 0;
    });
    ctx.putImageData(image, 0, 0);
  }
}
