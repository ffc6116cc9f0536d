// Whether anybody looks at the page: it decides when the link is closed and opened again. A hidden tab goes on for a while and
// is then parked; a page that the browser puts aside (bfcache, freezing) is parked at once, since open sockets keep browsers from
// doing so; whoever looks again finds the link tried at once. A machine that slept tells nobody: its clocks do.

import type { Clock } from "./clock.ts";

/** Hidden for so long, a page closes its link. */
export const PARK_AFTER_MS = 5 * 60 * 1000;
/** How often the clocks are compared. */
export const LOOK_EVERY_MS = 5000;
/** The time of day is ahead of the timers by more than this: the machine has slept, or somebody has set the clock. */
const SLEPT_MS_MIN = 10_000;

/** What presence moves: the session. */
export interface Parked {
  park(): void;
  wake(sleptMs: number): void;
  retryNow(): void;
}

export class Presence {
  readonly #clock: Clock;
  readonly #wall: () => number;
  readonly #session: Parked;
  #hidden = false;
  #away = false; // put aside by the browser
  #cancelPark: () => void = () => {};
  #wallMs: number;

  /** wall tells the time of day in milliseconds; it may leap. */
  constructor(clock: Clock, wall: () => number, session: Parked) {
    this.#clock = clock;
    this.#wall = wall;
    this.#session = session;
    this.#wallMs = wall();
    this.#look();
  }

  #look(): void {
    this.#clock.after(LOOK_EVERY_MS, () => {
      const slept = this.#slept();
      // A hidden tab's timers are late by the browser's will; nobody looks there anyway.
      if (slept > 0 && !this.#hidden && !this.#away) this.#session.wake(slept);
      this.#look();
    });
  }

  /** For how long the machine has slept since this was asked last; 0 for not at all. */
  #slept(): number {
    const now = this.#wall();
    const ms = now - this.#wallMs - LOOK_EVERY_MS;
    this.#wallMs = now;
    return ms > SLEPT_MS_MIN ? ms : 0;
  }

  hidden(): void {
    if (this.#hidden) return;
    this.#hidden = true;
    this.#cancelPark = this.#clock.after(PARK_AFTER_MS, () => this.#session.park());
  }

  visible(): void {
    this.#hidden = false;
    this.#cancelPark();
    if (!this.#away) this.#session.wake(this.#slept());
  }

  /** The browser puts the page aside: pagehide, freeze. */
  putAside(): void {
    this.#away = true;
    this.#session.park();
  }

  /** And takes it out again: pageshow, resume. */
  takenUp(): void {
    if (!this.#away) return;
    this.#away = false;
    this.#session.wake(this.#slept());
  }

  /** The browser believes that there is a network again. It is a hint: it may be wrong. */
  online(): void {
    if (!this.#away) this.#session.retryNow();
  }
}

/** Tells presence what the browser tells. */
export function watch(p: Presence): void {
  document.addEventListener("visibilitychange", () => (document.hidden ? p.hidden() : p.visible()));
  document.addEventListener("freeze", () => p.putAside());
  document.addEventListener("resume", () => p.takenUp());
  window.addEventListener("pagehide", () => p.putAside());
  window.addEventListener("pageshow", (e) => {
    if (e.persisted) p.takenUp();
  });
  window.addEventListener("online", () => p.online());
  if (document.hidden) p.hidden();
}
