// When the user's next tile is ready. The node says how many milliseconds are left, never a time of day, so a wrong clock of
// this machine does not matter. The deadline lies on the clock that never goes back; such clocks may stand still while a
// machine sleeps, so every later message with the node's time moves the deadline to where it belongs.

import type { Clock } from "./clock.ts";

/** Differences below this are the network's doing, not a sleep's. */
const DRIFT_MS_MIN = 1500;

export class Cooldown {
  readonly #clock: Clock;
  #deadline: number | null = null; // on the clock; null: not known
  #serverOffsetMs: number | null = null; // the node's time of day minus our clock
  #deadlineServerMs: number | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether the node has said when the next tile is ready. */
  get known(): boolean {
    return this.#deadline !== null;
  }

  /** The node says that so many milliseconds are left. */
  set(waitMs: number): void {
    this.#deadline = this.#clock.now() + waitMs;
    this.#deadlineServerMs = this.#serverOffsetMs === null ? null : this.#deadline + this.#serverOffsetMs;
  }

  /** Nothing is known any more: signed out, or another user. */
  forget(): void {
    this.#deadline = null;
    this.#deadlineServerMs = null;
  }

  /** The node says what time it is. */
  observe(serverTimeMs: number): void {
    const offset = serverTimeMs - this.#clock.now();
    this.#serverOffsetMs = offset;
    if (this.#deadline === null) return;
    if (this.#deadlineServerMs === null) {
      this.#deadlineServerMs = this.#deadline + offset;
      return;
    }
    const deadline = this.#deadlineServerMs - offset;
    if (Math.abs(deadline - this.#deadline) >= DRIFT_MS_MIN) this.#deadline = deadline;
  }

  /** Milliseconds until the next tile is ready; 0 when it is, or when nothing is known. */
  leftMs(): number {
    return this.#deadline === null ? 0 : Math.max(0, this.#deadline - this.#clock.now());
  }
}

/** "4:59", or "1:00:00" from an hour on. A started second counts whole, so that 0:00 is never shown while there is a wait. */
export function clockText(ms: number): string {
  const s = Math.ceil(ms / 1000);
  const two = (n: number) => String(n).padStart(2, "0");
  const minutes = Math.floor(s / 60) % 60;
  const hours = Math.floor(s / 3600);
  return hours > 0 ? `${hours}:${two(minutes)}:${two(s % 60)}` : `${minutes}:${two(s % 60)}`;
}
