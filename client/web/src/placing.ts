// What a tap or a key on the board means: choose a tile, look at it, place on it. It keeps the chosen tile, the cursor of the
// keyboard, and the card that shows them.

import { fetchTile, fetchTileHistory } from "./api.ts";
import { ZOOM_AIM, ZOOM_CLOSE } from "./camera.ts";
import { element, setText } from "./dom.ts";
import { chunkOf, type Point } from "./grid.ts";
import { t } from "./i18n.ts";
import type { Tap } from "./input.ts";
import { Loupe } from "./loupe.ts";
import type { Palette } from "./palette.ts";
import type { Session } from "./session.ts";
import { ZOOM_LOOK, type Stage } from "./stage.ts";
import type { PlaceButton, UI } from "./ui.ts";
import { tileWords, timeWords,  type TimerWords } from "./words.ts";

const DETAILS_PAUSE_MS = 300;
/** Placements of a tile that are shown of its past. */
const PAST_MAX = 12;
/** Moving the cursor is spoken only when it rests this long, so that holding an arrow key does not chatter. */
const SPEAK_PAUSE_MS = 350;

export class Placing {
  readonly #session: Session;
  readonly #stage: Stage;
  readonly #palette: Palette;
  readonly #ui: UI;
  readonly #refused: (code: number | "early" | "unsettled") => void;
  readonly #loupe: Loupe;
  readonly #past = element("past", HTMLDetailsElement);
  readonly #pastList = element("past-list", HTMLOListElement);
  #selected: Point | null = null;
  #chosen = false; // the selected tile was chosen to place on, not only to look at
  #touched = false; // by a finger
  #cursor: Point | null = null;
  #who = ""; // what the card says of the selected tile
  #when = "";
  #asked = 0; // the number of the newest question about a tile
  #askTimer = 0;
  #speakTimer = 0;
  #timer: TimerWords = { state: "unknown", text: "", clock: "" };

  constructor(session: Session, stage: Stage, palette: Palette, ui: UI, refused: (code: number | "early" | "unsettled") => void) {
    this.#session = session;
    this.#stage = stage;
    this.#palette = palette;
    this.#ui = ui;
    this.#refused = refused;
    this.#loupe = new Loupe({
      nudge: (dx, dy) => this.#nudge(dx, dy),
      colour: (tile) => {
        const s = session.settings;
        const within = s !== null && tile.x >= 0 && tile.y >= 0 && tile.x < s.width && tile.y < s.height;
        return within ? palette.css(session.board.colourAt(tile.x, tile.y)) : null;
      },
    });
    this.#past.addEventListener("toggle", () => {
      if (this.#past.open && this.#selected !== null) void this.#showPast(this.#selected);
    });
    stage.canvas.addEventListener("blur", () => this.#setCursor(null));
  }

  get selected(): Point | null {
    return this.#selected;
  }

  get cursor(): Point | null {
    return this.#cursor;
  }

  /** Somebody tapped the board. */
  tap({ px, py, touch, look }: Tap, tile: Point | null): void {
    this.#setCursor(null);
    if (tile === null) return this.select(null);
    const brush = look ? null : this.#palette.colour;
    const { zoom } = this.#stage.camera.view;
    if (zoom < (touch || brush !== null ? ZOOM_AIM : ZOOM_LOOK)) {
      // Too far away to hit one tile: go closer first.
      return this.#stage.zoomAt(px, py, ZOOM_CLOSE / zoom);
    }
    if (brush !== null && (!touch || same(this.#selected, tile))) this.#place(tile);
    else this.select(tile, brush !== null, touch);
  }

  /** Steers the keyboard's cursor by so many tiles. */
  steer(dx: number, dy: number): void {
    const s = this.#session.settings;
    if (s === null) return;
    const from = this.#cursor ?? this.#selected ?? this.#stage.middleTile() ?? { x: Math.floor(s.width / 2), y: Math.floor(s.height / 2) };
    const clamp = (v: number, side: number) => Math.min(side - 1, Math.max(0, v));
    const first = this.#cursor === null;
    this.#setCursor(first ? from : { x: clamp(from.x + dx, s.width), y: clamp(from.y + dy, s.height) });
    this.#stage.show(this.#cursor!, this.#stage.closeEnough ? 0 : ZOOM_CLOSE);
    clearTimeout(this.#speakTimer);
    this.#speakTimer = window.setTimeout(() => this.#speakCursor(), SPEAK_PAUSE_MS);
  }

  #speakCursor(): void {
    if (this.#cursor !== null) this.#ui.say(this.#describe(this.#cursor));
  }

  #describe(tile: Point): string {
    const colour = this.#palette.name(this.#session.board.colourAt(tile.x, tile.y));
    return t("tile.spoken", { x: String(tile.x), y: String(tile.y), colour });
  }

  /** Enter: places on the cursor's tile, or on the chosen one; without a colour in hand it looks. */
  act(): void {
    const tile = this.#cursor ?? this.#selected ?? this.#stage.middleTile();
    if (tile === null) return;
    if (!this.#stage.closeEnough) return this.#stage.show(tile, ZOOM_CLOSE);
    if (this.#palette.colour === null) this.inspect();
    else if (this.#cursor !== null || same(this.#selected, tile)) this.#place(tile);
    else this.select(tile, true);
  }

  /** Looks at the cursor's tile, or at the one in the middle, and says who placed it. */
  inspect(): void {
    const tile = this.#cursor ?? this.#selected ?? this.#stage.middleTile();
    if (tile !== null) this.select(tile);
  }

  /** Escape: lets go of one thing; false when there is nothing left. */
  unwind(): boolean {
    if (this.#session.armed !== null) this.cancel();
    else if (this.#selected !== null) this.select(null);
    else if (this.#palette.colour !== null) this.#palette.drop();
    else return false;
    return true;
  }

  /** Gives up the placement that waits for the cooldown. */
  cancel(): void {
    this.#session.disarm();
    this.#ui.say(t("place.disarmed"));
  }

  /** The button of the card. */
  press(): void {
    if (this.#session.armed !== null) this.cancel();
    else if (this.#selected !== null) this.#place(this.#selected);
  }

  #place(tile: Point): void {
    const colour = this.#palette.colour;
    if (colour === null) return;
    const result = this.#session.place(tile.x, tile.y, colour);
    if (!result.ok) return this.#refused(result.code);
    if (result.armed) this.#ui.toast(t("place.armed"));
    if (this.#selected !== null) this.select(null);
  }

  #setCursor(tile: Point | null): void {
    this.#cursor = tile;
    this.#stage.renderer.scene.cursor = tile;
    this.aim();
    this.#stage.draw();
  }

  /** Shows where the colour in hand would go. */
  aim(): void {
    const at = this.#cursor ?? (this.#chosen ? this.#selected : this.#stage.hover);
    const colour = this.#palette.colour;
    this.#stage.renderer.scene.aim = at === null || colour === null ? null : { ...at, colour };
  }

  #nudge(dx: number, dy: number): void {
    const s = this.#session.settings;
    const from = this.#selected;
    if (s === null || from === null) return;
    const tile = { x: Math.min(s.width - 1, Math.max(0, from.x + dx)), y: Math.min(s.height - 1, Math.max(0, from.y + dy)) };
    if (same(tile, from)) return;
    this.select(tile, this.#chosen, this.#touched);
    this.#stage.show(tile);
  }

  // ---- the selected tile ----

  select(tile: Point | null, chosen = false, touched = false): void {
    this.#selected = tile;
    this.#chosen = chosen;
    this.#touched = touched;
    this.#stage.renderer.scene.selected = tile;
    this.#who = "";
    this.#when = "";
    this.#past.open = false;
    if (tile === null) this.#ui.hideTile();
    else this.#ask(tile);
    this.aim();
    this.show();
    this.#stage.moved();
  }

  /** Shows the timer's new state on the card. */
  setTimer(timer: TimerWords): void {
    this.#timer = timer;
    this.show();
  }

  /** Shows the card as things are now. */
  show(): void {
    const tile = this.#selected;
    const fine = tile !== null && this.#chosen && this.#touched && this.#palette.colour !== null;
    this.#loupe.show(fine ? tile : null, this.#palette.colour === null ? null : this.#palette.css(this.#palette.colour));
    if (tile === null) return;
    const colour = this.#session.board.colourAt(tile.x, tile.y);
    this.#ui.showTile({ ...tile, css: this.#palette.css(colour), name: this.#palette.name(colour), who: this.#who, when: this.#when }, this.#button());
  }

  #button(): PlaceButton | null {
    const brush = this.#palette.colour;
    if (brush === null) return null;
    const { state, clock } = this.#timer;
    const colour = this.#palette.name(brush);
    if (state === "ready" || state === "signedOut") return { text: t("place.place", { colour }), enabled: true };
    if (state === "waiting" && this.#session.mayArm) return { text: t("place.arm", { colour, clock }), enabled: true };
    return { text: state === "waiting" ? t("place.wait", { clock }) : t("place.sending"), enabled: false };
  }

  /** Tiles of a chunk have changed. */
  changed(chunk: number): void {
    const tile = this.#selected;
    if (tile === null) return;
    if (!this.#stageLoupeHidden()) this.#loupe.draw();
    if (chunkOf(tile.x, tile.y) !== chunk) return;
    this.show();
    clearTimeout(this.#askTimer);
    this.#askTimer = window.setTimeout(() => {
      if (this.#selected === tile) this.#ask(tile);
    }, DETAILS_PAUSE_MS);
  }

  #stageLoupeHidden(): boolean {
    return !(this.#chosen && this.#touched);
  }

  /** Asks who placed the tile. */
  #ask(tile: Point): void {
    const number = ++this.#asked;
    const answer = (who: string, when: string) => {
      if (number !== this.#asked || this.#selected !== tile) return;
      this.#who = who;
      this.#when = when;
      this.show();
      if (this.#cursor !== null) this.#ui.say(`${this.#describe(tile)}, ${who}`);
    };
    fetchTile(tile.x, tile.y).then(
      (d) => answer(tileWords(d, Date.now()), d.placed ? timeWords(d.atMs) : ""),
      () => answer(t("tile.away"), ""),
    );
  }

  /** Lists the placements of a tile, the newest first. */
  async #showPast(tile: Point): Promise<void> {
    this.#pastList.replaceChildren();
    let lines: { words: string; colour: number | null; title: string }[];
    try {
      const past = await fetchTileHistory(tile.x, tile.y, PAST_MAX);
      lines = past.map((d) => ({
        words: t("tile.past", { colour: this.#palette.name(d.colour), what: tileWords(d, Date.now()) }), colour: d.colour, title: timeWords(d.atMs),
      }));
      if (lines.length === 0) lines = [{ words: t("tile.none"), colour: null, title: "" }];
    } catch {
      lines = [{ words: t("tile.away"), colour: null, title: "" }];
    }
    if (this.#selected !== tile) return;
    const items = lines.map(({ words, colour, title }) => {
      const item = document.createElement("li");
      item.title = title;
      if (colour !== null) {
        const chip = document.createElement("span");
        chip.className = "chip";
        chip.style.backgroundColor = this.#palette.css(colour);
        item.append(chip);
      }
      const text = document.createElement("span");
      setText(text, words);
      item.append(text);
      return item;
    });
    this.#pastList.replaceChildren(...items);
  }

  /** Drops what lies outside a board of this size. */
  within(width: number, height: number): void {
    const outside = (p: Point | null) => p !== null && (p.x >= width || p.y >= height);
    if (outside(this.#selected)) this.select(null);
    if (outside(this.#cursor)) this.#setCursor(null);
  }
}

function same(a: Point | null, b: Point | null): boolean {
  return a !== null && b !== null && a.x === b.x && a.y === b.y;
}
