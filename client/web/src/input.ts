// What hands do to the board: Pointer Events for mouse, pen and fingers, the wheel, and the keyboard. It moves the camera
// itself and tells taps and the hovered spot; what they mean is decided in main.ts.

import type { Camera } from "./camera.ts";

/** How far a pointer may move and still tap, px. */
const TAP_PX_MOUSE = 4;
const TAP_PX_TOUCH = 9;
/** How long a finger may rest and still tap. */
const TAP_MS_MAX = 500;
const KEY_PAN_PX_PER_S = 700;
const KEY_STEP_MS_MAX = 50;
export const ZOOM_STEP = 1.5;

export interface InputEvents {
  /** The camera has moved. */
  moved(): void;
  /** A click or a tap. `look` is a click with the other button: look, do not place. */
  tap(px: number, py: number, touch: boolean, look: boolean): void;
  /** The mouse is over this point of the board, or left it. */
  hover(at: { px: number; py: number } | null): void;
  /** One of the board's keys: Enter, Escape, or a step of the zoom. */
  key(name: "enter" | "escape" | "zoomIn" | "zoomOut"): void;
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
  #downMs = 0;
  #down: Finger = { px: 0, py: 0 };
  #tapping = false; // the gesture may still be a tap
  #pinched = false;
  #stepMs: number | null = null; // of the last step of held keys

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
    window.addEventListener("keydown", (e) => this.#keyDown(e));
    window.addEventListener("keyup", (e) => this.#keys.delete(e.code));
    window.addEventListener("blur", () => this.#keys.clear());
  }

  /** Moves the camera by the keys that are held; false when none is. */
  step(nowMs: number): boolean {
    const held = (code: string, letter: string) => (this.#keys.has(code) || this.#keys.has(letter) ? 1 : 0);
    const dx = held("ArrowRight", "KeyD") - held("ArrowLeft", "KeyA");
    const dy = held("ArrowDown", "KeyS") - held("ArrowUp", "KeyW");
    if (dx === 0 && dy === 0) {
      this.#stepMs = null;
      return false;
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
    this.#tapping = this.#fingers.size === 1;
    this.#pinched = this.#fingers.size > 1;
    this.#downMs = e.timeStamp;
    this.#down = at;
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
    if (this.#pinched && this.#fingers.size <= 1) {
      this.#pinched = false;
      this.#camera.settle(at.px, at.py);
      this.#events.moved();
    }
    const touch = e.pointerType === "touch";
    if (!touch) this.#events.hover(this.#at(e));
    if (!this.#tapping || !meant || (touch && e.timeStamp - this.#downMs > TAP_MS_MAX)) return;
    this.#tapping = false;
    if (e.button === 0 || e.button === 2) this.#events.tap(this.#down.px, this.#down.py, touch, e.button === 2);
  }

  #wheel(e: WheelEvent): void {
    e.preventDefault();
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
    if (target.closest("dialog, input[type=text], textarea, select") !== null) return;
    const onControl = target.closest("button, input, a") !== null; // these have a use for arrows and Enter themselves
    if (e.key === "Escape") return this.#events.key("escape");
    if (e.key === "+" || e.key === "=") return this.#events.key("zoomIn");
    if (e.key === "-") return this.#events.key("zoomOut");
    if (e.key === "Enter" && !onControl && !e.repeat) return this.#events.key("enter");
    const arrow = e.code.startsWith("Arrow");
    if ((arrow && !onControl) || ["KeyW", "KeyA", "KeyS", "KeyD"].includes(e.code)) {
      if (arrow) e.preventDefault();
      this.#keys.add(e.code);
      this.#events.moved();
    }
  }
}
