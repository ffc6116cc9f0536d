// Everything around the board: connection, people, banners, timer, coordinates, the card of a tile, toasts. It shows what it is
// told and knows nothing of the session. Names and announcements go in as text, never as markup.

import { element, setText } from "./dom.ts";
import type { Point } from "./grid.ts";
import { t } from "./i18n.ts";
import { onlineWords, titleWords, type TimerWords } from "./words.ts";

const TOAST_MS = 4500;
const TOASTS_MAX = 3;

export interface UIEvents {
  retry(): void;
  zoom(step: "in" | "out" | "fit"): void;
  place(): void;
  closeTile(): void;
}

/** The card of a tile. */
export interface TileCard extends Point {
  readonly css: string;
  readonly name: string; // of its colour
  readonly who: string;
  readonly when: string; // the exact time, "" when there is none
}

/** The button of the card that places the colour in hand; null: none. */
export interface PlaceButton {
  readonly text: string;
  readonly enabled: boolean;
}

export class UI {
  readonly #status = element("status", HTMLElement);
  readonly #statusText = element("status-text", HTMLElement);
  readonly #retry = element("retry", HTMLButtonElement);
  readonly #online = element("online", HTMLElement);
  readonly #onlineText = element("online-text", HTMLElement);
  readonly #frozen = element("frozen", HTMLElement);
  readonly #announcement = element("announcement", HTMLElement);
  readonly #announcementText = element("announcement-text", HTMLElement);
  readonly #coords = element("coords", HTMLElement);
  readonly #timer = element("timer", HTMLElement);
  readonly #timerText = element("timer-text", HTMLElement);
  readonly #timerFill = element("timer-fill", HTMLElement);
  readonly #tile = element("tile", HTMLElement);
  readonly #tileChip = element("tile-chip", HTMLElement);
  readonly #tileTitle = element("tile-title", HTMLElement);
  readonly #tileWho = element("tile-who", HTMLElement);
  readonly #place = element("place", HTMLButtonElement);
  readonly #toasts = element("toasts", HTMLElement);
  readonly #spoken = element("spoken", HTMLElement);
  #closedAnnouncement = "";

  constructor(events: UIEvents) {
    this.#retry.addEventListener("click", () => events.retry());
    element("zoom-in", HTMLButtonElement).addEventListener("click", () => events.zoom("in"));
    element("zoom-out", HTMLButtonElement).addEventListener("click", () => events.zoom("out"));
    element("zoom-fit", HTMLButtonElement).addEventListener("click", () => events.zoom("fit"));
    element("tile-close", HTMLButtonElement).addEventListener("click", () => events.closeTile());
    element("announcement-close", HTMLButtonElement).addEventListener("click", () => {
      this.#closedAnnouncement = this.#announcementText.textContent ?? "";
      this.#announcement.hidden = true;
    });
    this.#place.addEventListener("click", () => events.place());
  }

  /** The connection: its kind for the colour of the dot, its words, and whether there is something to retry. */
  setStatus(kind: string, words: string, retry: boolean): void {
    this.#status.dataset["state"] = kind;
    setText(this.#statusText, words);
    this.#retry.hidden = !retry;
  }

  setOnline(people: number): void {
    this.#online.hidden = people < 1;
    this.#online.title = t("online", { n: people });
    setText(this.#onlineText, onlineWords(people));
  }

  setBanners(announcement: string, frozen: string): void {
    this.#announcement.hidden = announcement === "" || announcement === this.#closedAnnouncement;
    setText(this.#announcementText, announcement);
    this.#frozen.hidden = frozen === "";
    setText(this.#frozen, frozen);
  }

  /** left: the share of the cooldown that is left, 0 to 1. */
  setTimer(words: TimerWords, left: number): void {
    const before = this.#timer.dataset["state"];
    if (before !== words.state) {
      this.#timer.dataset["state"] = words.state;
      this.#timer.classList.toggle("fresh", words.state === "ready" && before === "waiting");
    }
    setText(this.#timerText, words.text);
    this.#timerFill.style.setProperty("--left", left.toFixed(4));
    const title = titleWords(words);
    if (document.title !== title) document.title = title;
  }

  setCoords(at: Point | null, zoom: number): void {
    const times = zoom >= 10 ? Math.round(zoom).toString() : zoom.toFixed(zoom < 1 ? 2 : 1).replace(/\.?0+$/, "");
    setText(this.#coords, at === null ? `${times}×` : `(${at.x}, ${at.y}) ${times}×`);
  }

  showTile(card: TileCard, place: PlaceButton | null): void {
    this.#tile.hidden = false;
    this.#tile.dataset["at"] = `${card.x},${card.y}`;
    this.#tileChip.style.backgroundColor = card.css;
    setText(this.#tileTitle, `(${card.x}, ${card.y}) ${card.name}`);
    setText(this.#tileWho, card.who);
    this.#tileWho.title = card.when;
    this.#place.hidden = place === null;
    if (place === null) return;
    setText(this.#place, place.text);
    this.#place.disabled = !place.enabled;
  }

  hideTile(): void {
    this.#tile.hidden = true;
  }

  /** Shows a sentence for a few seconds. */
  toast(text: string): void {
    for (const old of [...this.#toasts.children]) if (old.textContent === text) old.remove();
    while (this.#toasts.children.length >= TOASTS_MAX) this.#toasts.firstElementChild!.remove();
    const toast = document.createElement("p");
    toast.className = "toast";
    toast.textContent = text;
    this.#toasts.append(toast);
    setTimeout(() => toast.remove(), TOAST_MS);
  }

  /** Says something to screen readers only. */
  say(text: string): void {
    this.#spoken.textContent = text;
  }
}
