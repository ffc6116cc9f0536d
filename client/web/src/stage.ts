// The board on the screen: canvas, camera, renderer, input and the one loop that draws. A frame is asked for when something in
// view has changed; when nothing moves, nothing runs.

import type { Board } from "./board.ts";
import { Camera, ZOOM_AIM, type View } from "./camera.ts";
import { element } from "./dom.ts";
import { CHUNK_SIZE, type ChunkRect, type Point } from "./grid.ts";
import { Input, ZOOM_STEP, type Tap } from "./input.ts";
import type { Key } from "./keys.ts";
import { Renderer } from "./renderer.ts";
import type { Settings } from "./settings.ts";
import { SUBSCRIBE_CHUNKS_MAX } from "./wire.ts";

const FLIGHT_MS = 220;
const FOLLOW_PAUSE_MS = 250;
/** A frame that is due later although nothing changes: a reduced page that waits. */
const LATE_MS = 260;
/** A mouse may look at tiles from this zoom on without going closer first. */
export const ZOOM_LOOK = 3;
const NO_CHUNKS: ChunkRect = { col: 0, row: 0, cols: 0, rows: 0 };

export interface StageEvents {
  /** The view or what the mouse is over has changed; middle: the tile in the middle of the view. */
  moved(hover: Point | null, middle: Point): void;
  tap(tap: Tap, tile: Point | null): void;
  key(key: Key): void;
  /** The chunks that are to be followed on a board that is not sent whole. */
  follow(chunks: ChunkRect): void;
}

export class Stage {
  readonly camera = new Camera();
  readonly renderer: Renderer;
  readonly canvas = element("board", HTMLCanvasElement);
  /** Tiles per side of a pixel of the overview image, 0 without one. */
  overviewScale = 0;
  /** Called once per frame, before it is drawn; true asks for another frame. */
  onFrame: (nowMs: number) => boolean = () => false;

  readonly #events: StageEvents;
  readonly #input: Input;
  readonly #dock = document.querySelector<HTMLElement>(".dock")!;
  readonly #top = document.querySelector<HTMLElement>(".top")!;
  readonly #banners = document.querySelector<HTMLElement>(".banners")!;
  readonly #calm = matchMedia("(prefers-reduced-motion: reduce)");
  #frame = 0; // the animation frame asked for, 0 for none
  #lateTimer = 0;
  #followTimer = 0;
  #mouse: { px: number; py: number } | null = null; // where it is over the board
  #hover: Point | null = null; // the tile under it

  constructor(board: Board, events: StageEvents) {
    this.#events = events;
    this.renderer = new Renderer(this.canvas, board, this.camera);
    this.renderer.onDirty = () => this.draw();
    this.#input = new Input(this.canvas, this.camera, {
      moved: () => this.moved(),
      tap: (tap) => events.tap(tap, this.camera.tileAt(tap.px, tap.py)),
      doubleTap: (px, py) => this.zoomAt(px, py, 2),
      hover: (at) => {
        this.#mouse = at;
        this.moved();
      },
      key: (key) => events.key(key),
      glides: () => !this.#calm.matches,
    });
    this.#watchSize();
  }

  get hover(): Point | null {
    return this.#hover;
  }

  /** How long the camera takes to get somewhere, in ms. */
  get flightMs(): number {
    return this.#calm.matches ? 0 : FLIGHT_MS;
  }

  /** Asks for a frame. */
  draw(): void {
    if (this.#frame !== 0) return;
    this.#frame = requestAnimationFrame((now) => {
      this.#frame = 0;
      const flying = this.camera.step(now);
      const walking = this.#input.step(now);
      const more = this.onFrame(now);
      if (flying || walking) this.moved();
      else if (more) this.draw();
      if (this.renderer.draw(now)) this.#drawLater();
    });
  }

  #drawLater(): void {
    if (this.#lateTimer !== 0) return;
    this.#lateTimer = window.setTimeout(() => {
      this.#lateTimer = 0;
      this.draw();
    }, LATE_MS);
  }

  /** The camera has moved: the marks follow, a frame is due, and the chunks to follow may be others. */
  moved(): void {
    const { x, y, zoom } = this.camera.view;
    this.#hover = this.#mouse === null ? null : this.camera.tileAt(this.#mouse.px, this.#mouse.py);
    this.renderer.scene.hover = zoom >= ZOOM_LOOK ? this.#hover : null;
    this.#events.moved(this.#hover, { x: Math.floor(x), y: Math.floor(y) });
    this.draw();
    if (this.#followTimer === 0) {
      this.#followTimer = window.setTimeout(() => {
        this.#followTimer = 0;
        this.#events.follow(this.#chunksInView());
      }, FOLLOW_PAUSE_MS);
    }
  }

  /** Takes the board's size and palette; the view stays where it is unless nobody has moved it yet. */
  setSettings(s: Settings): void {
    const first = this.renderer.scene.settings === null;
    this.renderer.setSettings(s);
    this.camera.setBoard(s.width, s.height);
    this.measure();
    if (first || this.camera.fitted) this.camera.fit();
    this.moved();
  }

  goTo(view: View): void {
    this.camera.flyTo(view, performance.now(), this.flightMs);
    this.moved();
  }

  /** Brings a tile into view, at least that close. */
  show(tile: Point, zoomLeast = 0): void {
    this.camera.flyToShow(tile, zoomLeast, performance.now(), this.flightMs);
    this.moved();
  }

  zoom(step: "in" | "out" | "fit"): void {
    const { width, height } = this.camera;
    if (step !== "fit") return this.zoomAt(width / 2, height / 2, step === "in" ? ZOOM_STEP ** 2 : ZOOM_STEP ** -2);
    this.camera.flyToFit(performance.now(), this.flightMs);
    this.moved();
  }

  zoomAt(px: number, py: number, factor: number): void {
    this.camera.flyStep(px, py, factor, performance.now(), this.flightMs);
    this.moved();
  }

  /** The middle of the part of the viewport that no panel covers, as a tile; null off the board. */
  middleTile(): Point | null {
    return this.camera.tileAt(this.camera.width / 2, this.camera.height / 2);
  }

  get closeEnough(): boolean {
    return this.camera.view.zoom >= ZOOM_AIM;
  }

  /** The chunks in view and one around them, about the middle when they are more than may be followed; none where the overview shows as much. */
  #chunksInView(): ChunkRect {
    if (this.overviewScale > 0 && this.camera.view.zoom * this.camera.ratio * this.overviewScale <= 1.5) return NO_CHUNKS;
    const side = Math.floor(Math.sqrt(SUBSCRIBE_CHUNKS_MAX));
    const from = this.camera.toBoard(0, 0);
    const to = this.camera.toBoard(this.camera.width, this.camera.height);
    const span = (a: number, b: number): [number, number] => {
      const first = Math.floor(a / CHUNK_SIZE) - 1;
      const count = Math.ceil(b / CHUNK_SIZE) + 1 - first;
      return count <= side ? [first, count] : [Math.floor((a + b) / 2 / CHUNK_SIZE - side / 2), side];
    };
    const [col, cols] = span(from.x, to.x);
    const [row, rows] = span(from.y, to.y);
    return { col, row, cols, rows };
  }

  /** Follows the size of the canvas in device pixels, exactly where the browser tells them. */
  #watchSize(): void {
    const observer = new ResizeObserver((entries) => {
      const exact = entries.find((e) => e.target === this.canvas)?.devicePixelContentBoxSize?.[0];
      if (exact !== undefined) this.renderer.resize(exact.inlineSize, exact.blockSize);
      this.measure(exact === undefined);
      this.moved();
      this.renderer.draw(performance.now()); // a resized canvas is black, and this runs after the frame's callbacks and before it is shown
    });
    try {
      observer.observe(this.canvas, { box: "device-pixel-content-box" });
    } catch {
      observer.observe(this.canvas);
    }
    observer.observe(element("palette", HTMLElement));
    observer.observe(this.#banners);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.renderer.restyle());
  }

  /** Measures the viewport and what panels cover of it; roughly: the canvas gets its size from that too. */
  measure(roughly = false): void {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (roughly) this.renderer.resize(Math.round(width * devicePixelRatio), Math.round(height * devicePixelRatio));
    const bottom = height - this.#dock.querySelector(".row")!.getBoundingClientRect().top;
    const top = Math.max(this.#top.getBoundingClientRect().bottom, this.#banners.getBoundingClientRect().bottom) + 4;
    this.camera.setViewport(width, height, this.canvas.width / Math.max(1, width), top, bottom);
  }
}
