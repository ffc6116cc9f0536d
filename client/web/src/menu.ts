// The menu: a sheet with what is not needed all the time. It shows and changes choices (prefs.ts) and tells what was asked for.

import { parseTile } from "./address.ts";
import { COLOUR_MODES, type ColourMode } from "./colours.ts";
import { element } from "./dom.ts";
import type { Point } from "./grid.ts";
import { LANGUAGES, LANGUAGE_NAMES, t } from "./i18n.ts";
import type { Prefs } from "./prefs.ts";

export interface MenuEvents {
  /** The board's size, to judge what was written. */
  size(): { width: number; height: number } | null;
  goTo(tile: Point): void;
  random(): void;
  copyLink(): void;
  save(): void;
  template(): void;
  follow(on: boolean): void;
  /** A choice was made; the prefs have it already. */
  chosen(name: keyof Prefs): void;
}

const SWITCHES = { grid: "show-grid", heat: "show-heat", minimap: "show-minimap", symbols: "show-symbols", sound: "tell-sound", notify: "tell-notify" } as const;

export class Menu {
  readonly #dialog = element("menu", HTMLDialogElement);
  readonly #modes = element("colour-mode", HTMLSelectElement);
  readonly #language = element("language", HTMLSelectElement);
  readonly #follow = element("show-follow", HTMLInputElement);
  readonly #text = element("goto-text", HTMLInputElement);
  readonly #error = element("goto-error", HTMLElement);
  readonly #prefs: Prefs;
  readonly #events: MenuEvents;

  constructor(prefs: Prefs, events: MenuEvents) {
    this.#prefs = prefs;
    this.#events = events;
    element("menu-open", HTMLButtonElement).addEventListener("click", () => this.open());
    element("menu-close", HTMLButtonElement).addEventListener("click", () => this.#dialog.close());
    this.#dialog.addEventListener("click", (e) => {
      if (e.target === this.#dialog) this.#dialog.close(); // the backdrop
    });
    element("goto", HTMLFormElement).addEventListener("submit", (e) => {
      e.preventDefault();
      this.#go();
    });
    const closing = (id: string, fn: () => void) =>
      element(id, HTMLButtonElement).addEventListener("click", () => {
        this.#dialog.close();
        fn();
      });
    closing("copy-link", () => events.copyLink());
    closing("go-random", () => events.random());
    closing("save-png", () => events.save());
    closing("template-open", () => events.template());
    this.#follow.addEventListener("change", () => {
      events.follow(this.#follow.checked);
      if (this.#follow.checked) this.#dialog.close();
    });
    for (const [name, id] of Object.entries(SWITCHES) as [keyof typeof SWITCHES, string][]) {
      element(id, HTMLInputElement).addEventListener("change", (e) => {
        prefs[name] = (e.target as HTMLInputElement).checked;
        events.chosen(name);
      });
    }
    this.#modes.addEventListener("change", () => {
      prefs.colours = this.#modes.value as ColourMode;
      events.chosen("colours");
    });
    this.#language.addEventListener("change", () => {
      prefs.language = this.#language.value;
      events.chosen("language");
    });
    this.relabel();
  }

  open(): void {
    this.#error.textContent = "";
    this.show();
    if (!this.#dialog.open) this.#dialog.showModal();
  }

  /** Shows the choices as they are. */
  show(): void {
    for (const [name, id] of Object.entries(SWITCHES) as [keyof typeof SWITCHES, string][]) element(id, HTMLInputElement).checked = this.#prefs[name];
    this.#modes.value = this.#prefs.colours;
    this.#language.value = this.#prefs.language;
  }

  setFollowing(on: boolean): void {
    this.#follow.checked = on;
  }

  relabel(): void {
    this.#modes.replaceChildren(...COLOUR_MODES.map((mode) => new Option(t(`colours.${mode}`), mode)));
    this.#language.replaceChildren(
      new Option(t("menu.byBrowser"), ""),
      ...LANGUAGES.map((code) => {
        const option = new Option(LANGUAGE_NAMES[code], code);
        option.lang = code;
        return option;
      }),
    );
    this.show();
  }

  #go(): void {
    const size = this.#events.size();
    const tile = size === null ? null : parseTile(this.#text.value, size.width, size.height);
    if (tile === null) {
      this.#error.textContent = t("menu.gotoWrong");
      this.#text.focus();
      return;
    }
    this.#error.textContent = "";
    this.#dialog.close();
    this.#events.goTo(tile);
  }
}
