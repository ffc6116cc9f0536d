// The small map: the whole board in a corner with a frame around what is in view. A press or a drag on it moves the view there.
// For people who see it; keyboards have "Go to" in the menu.

import type { Board } from "./board.ts";
import type { Camera } from "./camera.ts";
import { element } from "./dom.ts";
import type { Settings } from "./settings.ts";

/** The longer side, px. */
const SIDE_PX = 132;
/** The picture is made anew at most so often. */
const PAUSE_MS = 1000;

export class Minimap {
  readonly #canvas = element("minimap", HTMLCanvasElement);
  readonly #context: CanvasRenderingContext2D | null;
  readonly #picture = document.createElement("canvas");
  readonly #board: Board;
  readonly #camera: Camera;
  #settings: Settings | null = null;
  #words: readonly number[] = [];
  #overview: CanvasImageSource | null = null;
  #shown = false;
  #stale = true;
  #timer = 0;
  #drawn = "";

  /** goTo is told the tile that was pressed. */
  constructor(board: Board, camera: Camera, goTo: (x: number, y: number) => void) {
    this.#board = board;
    this.#camera = camera;
    this.#context = this.#canvas.getContext("2d");
    const press = (e: PointerEvent) => {
      if (this.#settings === null) return;
      const box = this.#canvas.getBoundingClientRect();
      goTo(((e.clientX - box.left) / box.width) * this.#settings.width, ((e.clientY - box.top) / box.height) * this.#settings.height);
    };
    this.#canvas.addEventListener("pointerdown", (e) => {
      this.#canvas.setPointerCapture(e.pointerId);
      press(e);
    });
    this.#canvas.addEventListener("pointermove", (e) => {
      if (this.#canvas.hasPointerCapture(e.pointerId)) press(e);
    });
  }

  show(on: boolean): void {
    this.#shown = on;
    this.#drawn = "";
    this.stale();
    this.draw();
  }

  /** Takes settings and the colours as they are shown, as words of an ImageData. */
  setSettings(s: Settings, words: readonly number[]): void {
    this.#settings = s;
    this.#words = words;
    this.#drawn = "";
    this.#stale = true;
  }

  setOverview(image: CanvasImageSource | null): void {
    this.#overview = image;
    this.stale();
  }

  /** Tiles have changed: the picture is made anew in a while. */
  stale(): void {
    this.#stale = true;
    if (this.#timer !== 0 || !this.#shown) return;
    this.#timer = window.setTimeout(() => {
      this.#timer = 0;
      this.#drawn = "";
      this.draw();
    }, PAUSE_MS);
  }

  /** Draws the frame, and the picture if it is stale; hides itself where the whole board is in view. */
  draw(): void {
    const s = this.#settings;
    const ctx = this.#context;
    const c = this.#camera;
    const useful = s !== null && c.view.zoom > c.fitZoom * 1.3;
    this.#canvas.hidden = !this.#shown || !useful;
    if (this.#canvas.hidden || s === null || ctx === null) return;
    const ratio = SIDE_PX / Math.max(s.width, s.height);
    const [width, height] = [Math.max(8, Math.round(s.width * ratio)), Math.max(8, Math.round(s.height * ratio))];
    const from = c.toBoard(0, 0);
    const to = c.toBoard(c.width, c.height);
    const frame = [from.x * ratio, from.y * ratio, (to.x - from.x) * ratio, (to.y - from.y) * ratio] as const;
    const drawn = [width, height, ...frame.map(Math.round)].join();
    if (drawn === this.#drawn) return;
    this.#drawn = drawn;
    if (this.#canvas.width !== width * 2 || this.#canvas.height !== height * 2) {
      this.#canvas.width = width * 2;
      this.#canvas.height = height * 2;
      this.#canvas.style.width = `${width}px`;
      this.#canvas.style.height = `${height}px`;
    }
    if (this.#stale) this.#paint(s, width * 2, height * 2);
    ctx.drawImage(this.#picture, 0, 0);
    ctx.setTransform(2, 0, 0, 2, 0, 0);
    for (const [style, line] of [["rgba(0,0,0,.75)", 3], ["#fff", 1.5]] as const) {
      ctx.strokeStyle = style;
      ctx.lineWidth = line;
      ctx.strokeRect(frame[0], frame[1], Math.max(3, frame[2]), Math.max(3, frame[3]));
    }
    ctx.setTransform(1, 0, 0, 1, 0, 0);
  }

  #paint(s: Settings, width: number, height: number): void {
    this.#stale = false;
    this.#picture.width = width;
    this.#picture.height = height;
    const ctx = this.#picture.getContext("2d");
    if (ctx === null) return;
    if (this.#overview !== null) return ctx.drawImage(this.#overview, 0, 0, width, height);
    const image = ctx.createImageData(width, height);
    const words = new Uint32Array(image.data.buffer);
    for (let y = 0, i = 0; y < height; y++) {
      const by = Math.floor(((y + 0.5) * s.height) / height);
      for (let x = 0; x < width; x++, i++) words[i] = this.#words[this.#board.colourAt(Math.floor(((x + 0.5) * s.width) / width), by)] ?? 0;
    }
    ctx.putImageData(image, 0, 0);
  }
}
