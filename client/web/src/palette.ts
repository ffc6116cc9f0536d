// The palette: a group of radio buttons with the names of the colours, and one more for looking without placing.

import { css, display, type ColourMode } from "./colours.ts";
import { element, setText } from "./dom.ts";
import { colourName, t } from "./i18n.ts";
import { COLOUR_KEYS } from "./keys.ts";
import { symbolOf } from "./marks.ts";
import type { PaletteEntry } from "./settings.ts";

const LOOK = "look";
const COLUMNS_MAX = 18;
const COLUMNS_NARROW_MAX = 9;
const EYE = "M2 12s3.6-7 10-7 10 7 10 7-3.6 7-10 7-10-7-10-7z";

export class Palette {
  /** Called when another colour, or none, is in hand. */
  onChange: () => void = () => {};

  readonly #group = element("palette", HTMLFieldSetElement);
  readonly #caption = element("brush", HTMLElement);
  #entries: readonly PaletteEntry[] = [];
  #colour: number | null = null;
  #mode: ColourMode = "painted";
  #symbols = false;

  constructor() {
    this.#group.addEventListener("change", (e) => {
      const value = (e.target as HTMLInputElement).value;
      this.#take(value === LOOK ? null : Number(value));
    });
  }

  /** The colour in hand, or null for looking. */
  get colour(): number | null {
    return this.#colour;
  }

  /** The name of a colour. */
  name(colour: number): string {
    const entry = this.#entries[colour];
    return entry === undefined || entry.name === "" ? t("palette.colour", { n: colour }) : colourName(entry.name);
  }

  /** The colour as it is shown, as CSS. */
  css(colour: number): string {
    return css(display(this.#entries[colour]?.rgb ?? 0xff00ff, this.#mode));
  }

  /** Takes the colour with this index into the hand, if it may be placed; the same again puts it down. */
  pick(colour: number): void {
    if (this.#entries[colour]?.closed !== false) return;
    if (colour === this.#colour) return this.drop();
    const input = this.#group.querySelector<HTMLInputElement>(`input[value="${colour}"]`);
    if (input !== null) input.checked = true;
    this.#take(colour);
  }

  /** Shows colours in another way, and with or without symbols. */
  setMode(mode: ColourMode, symbols: boolean): void {
    this.#mode = mode;
    this.#symbols = symbols;
    this.#build();
  }

  /** Names the colours in the language spoken. */
  relabel(): void {
    this.#build();
  }

  /** Shows another palette; the colour in hand stays if it may still be placed. */
  setEntries(entries: readonly PaletteEntry[]): void {
    if (JSON.stringify(entries) === JSON.stringify(this.#entries)) return;
    this.#entries = entries;
    if (this.#colour !== null && entries[this.#colour]?.closed !== false) this.#colour = null;
    this.#build();
  }

  #build(): void {
    const entries = this.#entries;
    if (entries.length === 0) return;
    const legend = this.#group.querySelector("legend")!;
    const open = entries.flatMap((e, i) => (e.closed ? [] : [this.#option(String(i), this.name(i), this.css(i))]));
    this.#group.replaceChildren(legend, this.#option(LOOK, t("palette.look"), null), ...open);
    // Rows of about the same length, whatever the number of colours.
    for (const [name, most] of [["--columns", COLUMNS_MAX], ["--columns-narrow", COLUMNS_NARROW_MAX]] as const) {
      const count = open.length + 1;
      this.#group.style.setProperty(name, String(Math.ceil(count / Math.ceil(count / most))));
    }
    this.#group.disabled = false;
    this.#take(this.#colour);
  }

  /** Lets go of the colour. */
  drop(): void {
    const look = this.#group.querySelector<HTMLInputElement>(`input[value="${LOOK}"]`);
    if (look !== null) look.checked = true;
    this.#take(null);
  }

  #option(value: string, name: string, css: string | null): HTMLLabelElement {
    const label = document.createElement("label");
    const input = document.createElement("input");
    input.type = "radio";
    input.name = "colour";
    input.value = value;
    input.checked = value === (this.#colour === null ? LOOK : String(this.#colour));
    const chip = document.createElement("span");
    chip.className = css === null ? "chip look" : "chip";
    if (css !== null) chip.style.backgroundColor = css;
    else chip.append(eye());
    const text = document.createElement("span");
    text.className = "unseen";
    text.textContent = name;
    label.title = name;
    if (this.#symbols && css !== null) chip.dataset["symbol"] = symbolOf(Number(value));
    const key = value === LOOK ? undefined : COLOUR_KEYS[Number(value)];
    if (key !== undefined) input.setAttribute("aria-keyshortcuts", key);
    label.append(input, chip, text);
    return label;
  }

  #take(colour: number | null): void {
    this.#colour = colour;
    setText(this.#caption, colour === null ? "" : this.name(colour));
    this.onChange();
  }
}

function eye(): SVGElement {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(ns, "path");
  path.setAttribute("d", EYE);
  const pupil = document.createElementNS(ns, "circle");
  for (const [name, value] of [["cx", "12"], ["cy", "12"], ["r", "3"]] as const) pupil.setAttribute(name, value);
  svg.append(path, pupil);
  return svg;
}
