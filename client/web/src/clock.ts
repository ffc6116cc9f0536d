// Time as the other modules see it, so that tests can stand still, leap and hurry.

export interface Clock {
  /** Milliseconds that never go back; says nothing about the time of day. */
  now(): number;
  /** Calls fn once after ms; the result cancels. */
  after(ms: number, fn: () => void): () => void;
}

/** The browser's clock. */
export const browserClock: Clock = {
  now: () => performance.now(),
  after(ms, fn) {
    const id = setTimeout(fn, ms);
    return () => clearTimeout(id);
  },
};
