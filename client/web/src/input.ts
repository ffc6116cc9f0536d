// What hands do to the board: Pointer Events for mouse, pen and fingers, the wheel, and the keyboard. It moves the camera
// itself and tells taps, keys and the hovered spot; what they mean is decided in placing.ts and main.ts.

import type { Camera } from "./camera.ts";
import { Glide } from "./glide.ts";
import { keyOf, type Key } from "./keys.ts";

/** How far a pointer may move and still tap, px. */
const TAP_PX_MOUSE = 4;
const TAP_PX_TOUCH = 9;
/** How long a finger may rest and still tap; after it, it looks. */
const TAP_MS_MAX = 500;
/** A second tap so soon and so near makes a double tap. */
const DOUBLE_MS_MAX = 300;
const DOUBLE_PX_MAX = 30;
const KEY_PAN_PX_PER_S = 700;
const KEY_STEP_MS_MAX = 50;
export const ZOOM_STEP = 1.5;

export interface Tap {
  readonly px: number;
  readonly py: number;
  readonly touch: boolean;
  /** A click with the other button, or a finger that rested: look, do not place. */
  readonly look: boolean;
}

export interface InputEvents {
  /** The camera has moved. */
  moved(): void;
  tap(tap: Tap): void;
  /** A finger tapped twice. */
  doubleTap(px: number, py: number): void;
  /** The mouse is over this point of the board, or left it. */
  hover(at: { px: number; py: number } | null): void;
  /** One of the board's keys. Arrows come only while the board has the keyboard; otherwise they pan. */
  key(key: Key): void;
  /** Whether a board that was let go of may glide on. */
  glides(): boolean;
}

interface Finger {
  px: number;
  py: number;
}

export class Input {
  readonly #canvas: HTMLCanvasElement;
  readonly #camera: Camera;
  readonly #events: InputEvents;
  readonly #fingers = new Map<number, Finger>();
  readonly #keys = new Set<string>();
  readonly #glide = new Glide();
  #down: Finger = { px: 0, py: 0 };
  #tapping = false; // the gesture may still be a tap
  #pinched = false;
  #restTimer = 0;
  #tapMs = -Infinity; // of the last tap of a finger
  #tapAt: Finger = { px: 0, py: 0 };
  #stepMs: number | null = null; // of the last step of held keys
  #steered = false; // the board has the keyboard: arrows steer the cursor

  constructor(canvas: HTMLCanvasElement, camera: Camera, events: InputEvents) {
    this.#canvas = canvas;
    this.#camera = camera;
    this.#events = events;
    canvas.addEventListener("pointerdown", (e) => this.#pointerDown(e));
    canvas.addEventListener("pointermove", (e) => this.#pointerMove(e));
    canvas.addEventListener("pointerup", (e) => this.#pointerUp(e, true));
    canvas.addEventListener("pointercancel", (e) => this.#pointerUp(e, false));
    canvas.addEventListener("pointerleave", () => this.#events.hover(null));
    canvas.addEventListener("wheel", (e) => this.#wheel(e), { passive: false });
    canvas.addEventListener("contextmenu", (e) => e.preventDefault());
    canvas.addEventListener("focus", () => (this.#steered = canvas.matches(":focus-visible")));
    canvas.addEventListener("blur", () => (this.#steered = false));
    window.addEventListener("keydown", (e) => this.#keyDown(e));
    window.addEventListener("keyup", (e) => this.#keys.delete(e.code));
    window.addEventListener("blur", () => this.#keys.clear());
  }

  /** Moves the camera by what glides and by the keys that are held; false when nothing does. */
  step(nowMs: number): boolean {
    const glided = this.#glide.step(nowMs);
    if (glided !== null) this.#camera.panBy(glided.dx, glided.dy);
    const held = (code: string, letter: string) => (this.#keys.has(code) || this.#keys.has(letter) ? 1 : 0);
    const dx = held("ArrowRight", "KeyD") - held("ArrowLeft", "KeyA");
    const dy = held("ArrowDown", "KeyS") - held("ArrowUp", "KeyW");
    if (dx === 0 && dy === 0) {
      this.#stepMs = null;
      return glided !== null;
    }
    const ms = this.#stepMs === null ? 16 : Math.min(KEY_STEP_MS_MAX, nowMs - this.#stepMs);
    this.#stepMs = nowMs;
    const px = (KEY_PAN_PX_PER_S * ms) / 1000 / Math.hypot(dx, dy);
    this.#camera.panBy(-dx * px, -dy * px);
    return true;
  }

  #at(e: MouseEvent): Finger {
    const box = this.#canvas.getBoundingClientRect();
    return { px: e.clientX - box.left, py: e.clientY - box.top };
  }

  #pointerDown(e: PointerEvent): void {
    const at = this.#at(e);
    this.#canvas.setPointerCapture(e.pointerId);
    this.#fingers.set(e.pointerId, at);
    this.#glide.stop();
    this.#tapping = this.#fingers.size === 1;
    this.#pinched = this.#fingers.size > 1;
    this.#down = at;
    clearTimeout(this.#restTimer);
    if (this.#tapping && e.pointerType === "touch") this.#restTimer = window.setTimeout(() => this.#rested(), TAP_MS_MAX);
  }

  #rested(): void {
    if (!this.#tapping) return;
    this.#tapping = false;
    this.#events.tap({ ...this.#down, touch: true, look: true });
  }

  #pointerMove(e: PointerEvent): void {
    const at = this.#at(e);
    const before = this.#fingers.get(e.pointerId);
    if (before === undefined) {
      if (e.pointerType !== "touch") this.#events.hover(at);
      return;
    }
    const slack = e.pointerType === "touch" ? TAP_PX_TOUCH : TAP_PX_MOUSE;
    if (this.#tapping && Math.hypot(at.px - this.#down.px, at.py - this.#down.py) <= slack) return;
    if (this.#tapping) this.#events.hover(null);
    this.#tapping = false;
    const other = [...this.#fingers].find(([id]) => id !== e.pointerId)?.[1];
    this.#fingers.set(e.pointerId, at);
    if (other === undefined) {
      this.#camera.panBy(at.px - before.px, at.py - before.py);
      if (!this.#pinched) this.#glide.sample(at.px, at.py, e.timeStamp);
    } else {
      const middle = (f: Finger) => ({ px: (f.px + other.px) / 2, py: (f.py + other.py) / 2 });
      const spread = (f: Finger) => Math.max(1, Math.hypot(f.px - other.px, f.py - other.py));
      const to = middle(at);
      this.#camera.panBy(to.px - middle(before).px, to.py - middle(before).py);
      this.#camera.zoomAt(to.px, to.py, (this.#camera.view.zoom * spread(at)) / spread(before));
    }
    this.#events.moved();
  }

  #pointerUp(e: PointerEvent, meant: boolean): void {
    const at = this.#fingers.get(e.pointerId);
    if (at === undefined) return;
    this.#fingers.delete(e.pointerId);
    clearTimeout(this.#restTimer);
    const glides = !this.#tapping && !this.#pinched && meant && this.#events.glides();
    if (!(glides && this.#glide.release(e.timeStamp))) this.#glide.stop();
    if (this.#pinched && this.#fingers.size <= 1) {
      this.#pinched = this.#fingers.size === 1; // the finger that stays is not flung away
      this.#camera.settle(at.px, at.py);
    }
    this.#events.moved();
    const touch = e.pointerType === "touch";
    if (!touch) this.#events.hover(this.#at(e));
    if (!this.#tapping || !meant) return;
    this.#tapping = false;
    if (e.button !== 0 && e.button !== 2) return;
    if (touch && this.#isSecond(e.timeStamp)) this.#events.doubleTap(this.#down.px, this.#down.py);
    else this.#events.tap({ ...this.#down, touch, look: e.button === 2 });
  }

  #isSecond(ms: number): boolean {
    const near = Math.hypot(this.#down.px - this.#tapAt.px, this.#down.py - this.#tapAt.py) <= DOUBLE_PX_MAX;
    const second = near && ms - this.#tapMs <= DOUBLE_MS_MAX;
    this.#tapMs = second ? -Infinity : ms;
    this.#tapAt = this.#down;
    return second;
  }

  #wheel(e: WheelEvent): void {
    e.preventDefault();
    this.#glide.stop();
    const { px, py } = this.#at(e);
    const lines = e.deltaMode === WheelEvent.DOM_DELTA_LINE ? 33 : e.deltaMode === WheelEvent.DOM_DELTA_PAGE ? 300 : 1;
    const delta = e.deltaY * lines;
    if (delta === 0) return;
    if (Math.abs(delta) >= 50) this.#camera.zoomStep(px, py, delta < 0 ? ZOOM_STEP : 1 / ZOOM_STEP); // a notch of a wheel
    else this.#camera.zoomAt(px, py, this.#camera.view.zoom * Math.exp(-delta * (e.ctrlKey ? 0.01 : 0.004))); // a touch pad
    this.#events.moved();
    this.#events.hover({ px, py });
  }

  #keyDown(e: KeyboardEvent): void {
    if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return;
    const target = e.target as HTMLElement;
    if (target.closest("dialog, input:not([type=radio]), textarea, select, .loupe") !== null) return;
    const onControl = target.closest("button, input, a, summary") !== null; // these have a use for arrows and Enter themselves
    const steered = this.#steered && target === this.#canvas;
    const key = keyOf(e, steered);
    if (key === null) return;
    if (onControl && (key.kind === "move" || key.kind === "enter" || e.code.startsWith("Arrow"))) return;
    if (e.code.startsWith("Arrow") || key.kind === "enter") e.preventDefault();
    if (key.kind === "pan") {
      this.#keys.add(e.code);
      this.#events.moved();
    } else if (!e.repeat || key.kind === "move" || key.kind === "zoomIn" || key.kind === "zoomOut") {
      this.#events.key(key);
    }
  }
}
