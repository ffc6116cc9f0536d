// The template on the screen: its dialog, the layer that draws it over the tiles, the bar that says how far it is painted.

import { formatHash, restOfHash } from "./address.ts";
import { css } from "./colours.ts";
import type { Camera } from "./camera.ts";
import { element, setText } from "./dom.ts";
import { t } from "./i18n.ts";
import type { Session } from "./session.ts";
import type { Settings } from "./settings.ts";
import type { Stage } from "./stage.ts";
import { formatTemplate, matchPixels, mayLoad, NO_COLOUR, parseTemplate, Template } from "./template.ts";
import type { UI } from "./ui.ts";

const KEY = "placed.template";
/** Tiles compared at a time, and the pauses between and after. */
const COUNT_TILES = 40_000;
const COUNT_PAUSE_MS = 40;
const COUNT_EVERY_MS = 2000;
const LINK_CHARS_MAX = 6000;
const STORED_CHARS_MAX = 400_000;
/** From this zoom on (device pixels per tile) dots can be told from tiles. */
const DOTS_ZOOM_MIN = 3;

/** What is remembered of a template until the next visit. */
interface Stored {
  src: string;
  x: number;
  y: number;
  opacity: number;
  dots: boolean;
  shown: boolean;
}

export interface TracingEvents {
  /** Goes to a tile and, with a colour, takes that into the hand. */
  goTo(x: number, y: number, colour: number | null): void;
  copy(link: string): void;
}

export class Tracing {
  readonly #session: Session;
  readonly #stage: Stage;
  readonly #ui: UI;
  readonly #events: TracingEvents;
  readonly #dialog = element("template", HTMLDialogElement);
  readonly #file = element("template-file", HTMLInputElement);
  readonly #error = element("template-error", HTMLElement);
  readonly #options = element("template-options", HTMLFieldSetElement);
  readonly #x = element("template-x", HTMLInputElement);
  readonly #y = element("template-y", HTMLInputElement);
  readonly #opacity = element("template-opacity", HTMLInputElement);
  readonly #dots = element("template-dots", HTMLInputElement);
  readonly #shown = element("template-shown", HTMLInputElement);
  readonly #bar = element("template-bar", HTMLElement);
  readonly #progress = element("template-progress", HTMLElement);
  readonly #picture = document.createElement("canvas");
  readonly #scratch = document.createElement("canvas");
  #template: Template | null = null;
  #stored: Stored = { src: "", x: 0, y: 0, opacity: 70, dots: true, shown: true };
  #settings: Settings | null = null;
  #pixels: ImageData | null = null; // of the picture as it was read
  #wrong: { x: number; y: number } | null = null; // the wrong tile that was shown last
  #timer = 0;

  constructor(session: Session, stage: Stage, ui: UI, events: TracingEvents) {
    this.#session = session;
    this.#stage = stage;
    this.#ui = ui;
    this.#events = events;
    stage.renderer.layers.push((ctx, camera) => this.#draw(ctx, camera));
    element("template-close", HTMLButtonElement).addEventListener("click", () => this.#dialog.close());
    this.#dialog.addEventListener("click", (e) => {
      if (e.target === this.#dialog) this.#dialog.close();
    });
    this.#file.addEventListener("change", () => void this.#chooseFile());
    for (const input of [this.#x, this.#y, this.#opacity, this.#dots, this.#shown]) input.addEventListener("input", () => this.#changed());
    element("template-here", HTMLButtonElement).addEventListener("click", () => this.#moveHere());
    element("template-show", HTMLButtonElement).addEventListener("click", () => this.#goTo());
    element("template-share", HTMLButtonElement).addEventListener("click", () => this.#share());
    element("template-remove", HTMLButtonElement).addEventListener("click", () => this.#remove());
    element("template-next", HTMLButtonElement).addEventListener("click", () => this.nextWrong());
  }

  open(): void {
    this.#error.textContent = "";
    this.#fill();
    if (!this.#dialog.open) this.#dialog.showModal();
  }

  /** Takes settings; the first ones load the template of the link, or the one of the last visit. */
  setSettings(s: Settings): void {
    const first = this.#settings === null;
    const palette = JSON.stringify(this.#settings?.palette) !== JSON.stringify(s.palette);
    this.#settings = s;
    if (first) void this.#begin();
    else if (palette && this.#pixels !== null) this.#take(this.#pixels);
  }

  async #begin(): Promise<void> {
    const link = parseTemplate(restOfHash(location.hash));
    if (link !== null) this.#stored = { ...this.#stored, ...link };
    else {
      try {
        const kept = JSON.parse(localStorage.getItem(KEY) ?? "null") as Partial<Stored> | null;
        if (kept === null || typeof kept.src !== "string") return;
        this.#stored = { ...this.#stored, ...kept };
      } catch {
        return;
      }
    }
    const src = this.#stored.src;
    if (!mayLoad(src, document.baseURI)) return this.#ui.toast(t("template.foreign"));
    try {
      await this.#load(src);
    } catch (err) {
      this.#ui.toast((err as Error).message);
    }
  }

  async #chooseFile(): Promise<void> {
    const file = this.#file.files?.[0];
    if (file === undefined) return;
    const { x, y } = this.#stage.camera.view;
    const src = URL.createObjectURL(file);
    this.#error.textContent = "";
    try {
      await this.#load(src);
      const small = this.#dataURL();
      const { width, height } = this.#template!;
      this.#stored = { ...this.#stored, src: small, x: Math.max(0, Math.floor(x - width / 2)), y: Math.max(0, Math.floor(y - height / 2)), shown: true };
      this.#fill();
      this.#apply();
    } catch (err) {
      this.#error.textContent = (err as Error).message;
    } finally {
      URL.revokeObjectURL(src);
    }
  }

  /** Reads a picture's pixels; throws what to tell the person. */
  async #load(src: string): Promise<void> {
    const s = this.#settings;
    if (s === null) return;
    const image = new Image();
    image.src = src;
    try {
      await image.decode();
    } catch {
      throw new Error(t("template.broken"));
    }
    if (image.naturalWidth > s.width || image.naturalHeight > s.height) throw new Error(t("template.tooBig"));
    const canvas = this.#scratch;
    canvas.width = image.naturalWidth;
    canvas.height = image.naturalHeight + 1; // one row more, to see whether the browser tells pixels as they are
    const ctx = canvas.getContext("2d", { willReadFrequently: true });
    if (ctx === null) throw new Error(t("template.broken"));
    ctx.drawImage(image, 0, 0);
    ctx.fillStyle = "#123456";
    ctx.fillRect(0, image.naturalHeight, canvas.width, 1);
    const probe = ctx.getImageData(0, image.naturalHeight, 1, 1).data;
    if (probe[0] !== 0x12 || probe[1] !== 0x34 || probe[2] !== 0x56) throw new Error(t("template.hidden"));
    this.#take(ctx.getImageData(0, 0, image.naturalWidth, image.naturalHeight));
  }

  #take(pixels: ImageData): void {
    const s = this.#settings!;
    this.#pixels = pixels;
    const tiles = matchPixels(pixels.data, s.palette);
    this.#template = new Template(pixels.width, pixels.height, tiles, this.#stored.x, this.#stored.y);
    this.#picture.width = pixels.width;
    this.#picture.height = pixels.height;
    const ctx = this.#picture.getContext("2d")!;
    tiles.forEach((colour, i) => {
      if (colour === NO_COLOUR) return;
      ctx.fillStyle = css(s.palette[colour]!.rgb);
      ctx.fillRect(i % pixels.width, Math.floor(i / pixels.width), 1, 1);
    });
    this.#fill();
    this.#apply();
  }

  #fill(): void {
    const s = this.#stored;
    this.#options.disabled = this.#template === null;
    this.#x.value = String(s.x);
    this.#y.value = String(s.y);
    this.#opacity.value = String(s.opacity);
    this.#dots.checked = s.dots;
    this.#shown.checked = s.shown;
  }

  #changed(): void {
    const whole = (input: HTMLInputElement, old: number) => (/^\d{1,4}$/.test(input.value) ? Number(input.value) : old);
    const s = this.#stored;
    this.#stored = {
      ...s, x: whole(this.#x, s.x), y: whole(this.#y, s.y), opacity: Number(this.#opacity.value), dots: this.#dots.checked, shown: this.#shown.checked,
    };
    this.#apply();
  }

  #apply(): void {
    const template = this.#template;
    this.#bar.hidden = template === null || !this.#stored.shown;
    if (template !== null) {
      template.x = this.#stored.x;
      template.y = this.#stored.y;
      try {
        if (this.#stored.src.length <= STORED_CHARS_MAX) localStorage.setItem(KEY, JSON.stringify(this.#stored));
      } catch {
        // it lasts until the page is closed
      }
      this.#count();
    }
    this.#stage.draw();
  }

  /** Counts what is right, a slice at a time, and again and again while the template is shown. */
  #count(): void {
    clearTimeout(this.#timer);
    const template = this.#template;
    if (template === null || !this.#stored.shown) return;
    const progress = document.hidden ? null : template.count(this.#session.board, COUNT_TILES);
    if (progress !== null) {
      const percent = progress.all === 0 ? 100 : Math.floor((100 * progress.right) / progress.all);
      const left = progress.all - progress.right;
      setText(this.#progress, left === 0 ? t("template.done") : t("template.progress", { percent: String(percent), n: left }));
    }
    this.#timer = window.setTimeout(() => this.#count(), progress === null ? COUNT_PAUSE_MS : COUNT_EVERY_MS);
  }

  #moveHere(): void {
    if (this.#template === null) return;
    const { x, y } = this.#stage.camera.view;
    this.#stored.x = Math.max(0, Math.floor(x - this.#template.width / 2));
    this.#stored.y = Math.max(0, Math.floor(y - this.#template.height / 2));
    this.#fill();
    this.#apply();
  }

  #goTo(): void {
    const template = this.#template;
    if (template === null) return;
    this.#dialog.close();
    this.#events.goTo(template.x + Math.floor(template.width / 2), template.y + Math.floor(template.height / 2), null);
  }

  /** Goes to the next tile that is not as the template wants it, with its colour in hand. */
  nextWrong(): void {
    const wrong = this.#template?.nextWrong(this.#session.board, this.#wrong) ?? null;
    this.#wrong = wrong;
    if (wrong !== null) this.#events.goTo(wrong.x, wrong.y, wrong.colour);
    else if (this.#template !== null) this.#ui.toast(t("template.done"));
  }

  /** The picture in the colours of the palette as a small PNG. */
  #dataURL(): string {
    return this.#picture.toDataURL("image/png");
  }

  #share(): void {
    const { x, y, src } = this.#stored;
    const own = src.startsWith("data:") || src.startsWith("blob:") ? this.#dataURL() : src;
    const rest = formatTemplate({ src: own, x, y });
    if (rest.length > LINK_CHARS_MAX) return this.#ui.toast(t("template.tooLong", { x: String(x), y: String(y) }));
    this.#dialog.close();
    this.#events.copy(new URL(formatHash(this.#stage.camera.view, rest), location.href).href);
  }

  #remove(): void {
    this.#template = null;
    this.#pixels = null;
    this.#file.value = "";
    this.#picture.width = this.#picture.height = 0;
    try {
      localStorage.removeItem(KEY);
    } catch {
      // nothing was kept
    }
    if (restOfHash(location.hash) !== "") history.replaceState(history.state, "", formatHash(this.#stage.camera.view));
    this.#dialog.close();
    this.#fill();
    this.#apply();
  }

  #draw(ctx: CanvasRenderingContext2D, c: Camera): void {
    const template = this.#template;
    if (template === null || !this.#stored.shown) return;
    const [x0, y0] = [c.deviceX(template.x), c.deviceY(template.y)];
    const [x1, y1] = [c.deviceX(template.x + template.width), c.deviceY(template.y + template.height)];
    if (x1 <= 0 || y1 <= 0 || x0 >= ctx.canvas.width || y0 >= ctx.canvas.height) return;
    const deviceZoom = c.view.zoom * c.ratio;
    ctx.imageSmoothingEnabled = deviceZoom < 1;
    if (!this.#stored.dots || deviceZoom < DOTS_ZOOM_MIN) {
      ctx.globalAlpha = this.#stored.opacity / 100;
      ctx.drawImage(this.#picture, x0, y0, x1 - x0, y1 - y0);
      ctx.globalAlpha = 1;
      return;
    }
    this.#drawDots(ctx, deviceZoom, x0, y0, x1, y1);
  }

  /** Draws the picture through a mask of one dot per tile: two fills, however many tiles. */
  #drawDots(ctx: CanvasRenderingContext2D, deviceZoom: number, x0: number, y0: number, x1: number, y1: number): void {
    const { width, height } = ctx.canvas;
    if (this.#scratch.width !== width || this.#scratch.height !== height) {
      this.#scratch.width = width;
      this.#scratch.height = height;
    }
    const scratch = this.#scratch.getContext("2d")!;
    scratch.globalCompositeOperation = "copy";
    scratch.imageSmoothingEnabled = false;
    scratch.drawImage(this.#picture, x0, y0, x1 - x0, y1 - y0);
    const cell = Math.max(DOTS_ZOOM_MIN, Math.round(deviceZoom));
    const dot = document.createElement("canvas");
    dot.width = dot.height = cell;
    const edge = Math.floor(cell / 3);
    dot.getContext("2d")!.fillRect(edge, edge, cell - 2 * edge, cell - 2 * edge);
    const mask = scratch.createPattern(dot, "repeat");
    if (mask === null) return;
    mask.setTransform(new DOMMatrix([deviceZoom / cell, 0, 0, deviceZoom / cell, x0, y0]));
    scratch.globalCompositeOperation = "destination-in";
    scratch.fillStyle = mask;
    scratch.fillRect(0, 0, width, height);
    ctx.globalAlpha = this.#stored.opacity / 100;
    ctx.drawImage(this.#scratch, 0, 0);
    ctx.globalAlpha = 1;
  }
}
