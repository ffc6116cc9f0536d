// The closed list of refusals, numbered as on the wire (board/refusal.go), with what a page says to a person.

export const Code = {
  ok: 0, cooldown: 1, bounds: 2, colour: 3, frozen: 4, protected: 5, banned: 6, superseded: 7, turn: 8, busy: 9, store: 10,
  signIn: 11, rate: 12, badMessage: 13, loading: 14, draining: 15, clock: 16,
} as const;

export const SENTENCES: readonly string[] = [
  "Placed.",
  "Your next tile is not ready yet.",
  "That tile is outside the board.",
  "That colour is not in the palette.",
  "The board is frozen.",
  "That area is protected.",
  "You may not place tiles on this board.",
  "You have placed another tile since.",
  "That was not your turn: please try again.",
  "Too much is going on here: try again in a moment.",
  "The board cannot save placements at the moment.",
  "Sign in to place tiles.",
  "Too many requests: slow down.",
  "That message was not understood.",
  "The board is being loaded.",
  "This server is going down: try again in a moment.",
  "The server's clock is not trusted at the moment.",
];

/** The sentence for a refusal. */
export function sentence(code: number): string {
  return SENTENCES[code] ?? "The server refused that.";
}

/**
 * Refusals of the moment: the same placement is sent again a few times after the time given before anybody is told. The others
 * that pass by themselves last longer, so people are told at once. Codes that this page does not know count as busy.
 */
export function passes(code: number): boolean {
  return code === Code.busy || code === Code.draining || code === Code.rate || code >= SENTENCES.length;
}
