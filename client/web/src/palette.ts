// The palette: a group of radio buttons with the names of the colours, and one more for looking without placing.

import { element, setText } from "./dom.ts";
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
    return this.#entries[colour]?.name ?? `colour ${colour}`;
  }

  /** The colour as CSS. */
  css(colour: number): string {
    return "#" + (this.#entries[colour]?.rgb ?? 0xff00ff).toString(16).padStart(6, "0");
  }

  /** Shows another palette; the colour in hand stays if it may still be placed. */
  setEntries(entries: readonly PaletteEntry[]): void {
    if (JSON.stringify(entries) === JSON.stringify(this.#entries)) return;
    this.#entries = entries;
    if (this.#colour !== null && entries[this.#colour]?.closed !== false) this.#colour = null;
    const legend = this.#group.querySelector("legend")!;
    const open = entries.flatMap((e, i) => (e.closed ? [] : [this.#option(String(i), e.name, this.css(i))]));
    this.#group.replaceChildren(legend, this.#option(LOOK, "Look at tiles", null), ...open);
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
