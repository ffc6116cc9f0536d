// What the tests share: the data that Go and TypeScript have in common, a clock that stands still until it is moved, and a
// seeded source of random numbers.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../src/clock.ts";
import type { Word } from "../src/hash.ts";

/** Reads a file of wire/testdata. */
export function testdata<T>(name: string): T {
  const dir = process.env["PLACED_WIRE_TESTDATA"];
  if (dir === undefined) throw new Error("PLACED_WIRE_TESTDATA is not set: run these tests by go test ./client/web");
  return JSON.parse(readFileSync(join(dir, name), "utf8")) as T;
}

export function bytesOf(hex: string): Uint8Array {
  return Uint8Array.from(Buffer.from(hex, "hex"));
}

/** A 64-bit number in decimal digits. */
export function wordOf(decimal: string): Word {
  const v = BigInt(decimal);
  return { hi: Number(v >> 32n), lo: Number(v & 0xffffffffn) };
}

/** Numbers in [0, 1) that a seed decides. */
export function seeded(seed: number): () => number {
  let s = seed >>> 0;
  return () => {
    s = (s + 0x6d2b79f5) >>> 0;
    let t = Math.imul(s ^ (s >>> 15), s | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A clock that moves when it is told to, running what falls due in order. */
export class TestClock implements Clock {
  #now = 1000;
  #due: { at: number; fn: () => void }[] = [];

  now(): number {
    return this.#now;
  }

  after(ms: number, fn: () => void): () => void {
    const entry = { at: this.#now + ms, fn };
    this.#due.push(entry);
    return () => {
      this.#due = this.#due.filter((e) => e !== entry);
    };
  }

  /** Moves on by ms. */
  pass(ms: number): void {
    const end = this.#now + ms;
    for (;;) {
      const next = this.#due.reduce<{ at: number; fn: () => void } | null>((a, b) => (a === null || b.at < a.at ? b : a), null);
      if (next === null || next.at > end) break;
      this.#due = this.#due.filter((e) => e !== next);
      this.#now = Math.max(this.#now, next.at);
      next.fn();
    }
    this.#now = end;
  }

  /** Moves on without running anything: a machine that sleeps, its timers late. */
  sleep(ms: number): void {
    this.#now += ms;
  }
}

/** The refusals of board/refusal.go, as the Go test writes them. */
export function refusals(): { code: number; label: string }[] {
  const list = process.env["PLACED_REFUSALS"];
  if (list === undefined) throw new Error("PLACED_REFUSALS is not set: run these tests by go test ./client/web");
  return JSON.parse(list) as { code: number; label: string }[];
}
