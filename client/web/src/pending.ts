// The user's placements that are not on the board yet. They lie over the board as an overlay and never in it, so a refusal has
// nothing to undo: the mark goes and the tile underneath is right, whatever others did meanwhile.
//
//   sent      on its way; sent again with the same turn and nonce until there is a final answer
//   charged   promised by the node, not on the board yet; asked for again as well
//   accepted  on the board at a sequence number; the mark goes when that number has been applied here

import { sameWord, type Word } from "./hash.ts";
import type { Placed } from "./wire.ts";

/** A placement without a final answer is sent again after this long. */
export const ANSWER_MS_MAX = 5000;

export interface Pending {
  readonly turn: number;
  readonly nonce: Word;
  readonly x: number;
  readonly y: number;
  readonly colour: number;
  state: "sent" | "charged" | "accepted";
  sendAgainMs: number; // on the clock
  busy: number; // how often it was refused for the moment's sake
  chunk: number; // accepted
  sequence: number; // accepted
}

export class PendingPlacements {
  #list: Pending[] = [];

  /** All of them, oldest first. */
  get all(): readonly Pending[] {
    return this.#list;
  }

  /** The one without a final answer, of which a user has one at most. */
  get unsettled(): Pending | null {
    return this.#list.find((p) => p.state !== "accepted") ?? null;
  }

  add(turn: number, nonce: Word, x: number, y: number, colour: number, nowMs: number): Pending {
    const p: Pending = {
      turn, nonce, x, y, colour, state: "sent", sendAgainMs: nowMs + ANSWER_MS_MAX, busy: 0, chunk: 0, sequence: 0,
    };
    this.#list.push(p);
    return p;
  }

  /** The one that an answer speaks of, or null: that of another page of this user, or one that was given up. */
  find(answer: Placed): Pending | null {
    return this.#list.find((p) => sameWord(p.nonce, answer.nonce)) ?? null;
  }

  remove(p: Pending): void {
    this.#list = this.#list.filter((q) => q !== p);
  }

  clear(): void {
    this.#list = [];
  }

  /** Takes away what is on the board by now; heldOf tells the sequence number that a chunk's tiles stand at. */
  settle(heldOf: (chunk: number) => number): boolean {
    const before = this.#list.length;
    this.#list = this.#list.filter((p) => p.state !== "accepted" || heldOf(p.chunk) < p.sequence);
    return this.#list.length !== before;
  }
}
