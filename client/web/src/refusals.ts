// The closed list of refusals, numbered as on the wire (board/refusal.go), with what a page says to a person.

import { t } from "./i18n.ts";

export const Code = {
  ok: 0, cooldown: 1, bounds: 2, colour: 3, frozen: 4, protected: 5, banned: 6, superseded: 7, turn: 8, busy: 9, store: 10,
  signIn: 11, rate: 12, badMessage: 13, loading: 14, draining: 15, clock: 16,
} as const;

const KEYS = Object.keys(Code);

/** The sentence for a refusal. */
export function sentence(code: number): string {
  return t(`refusal.${KEYS[code] ?? "unknown"}`);
}

/** A placement that came early by no more than this was sent at the right moment by a clock that is a little off. */
const EARLY_MS_MAX = 1000;

/**
 * Refusals of the moment: the same placement is sent again a few times after the time given before anybody is told. The others
 * that pass by themselves last longer, so people are told at once. Codes that this page does not know count as busy.
 */
export function passes(code: number, waitMs = Infinity): boolean {
  return (code === Code.cooldown && waitMs <= EARLY_MS_MAX) || code === Code.busy || code === Code.draining || code === Code.rate || code >= KEYS.length;
}
