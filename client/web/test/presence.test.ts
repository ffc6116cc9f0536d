// Hidden tabs, pages that the browser puts aside, machines that sleep.

import assert from "node:assert/strict";
import { test } from "node:test";
import { LOOK_EVERY_MS, PARK_AFTER_MS, Presence } from "../src/presence.ts";
import { TestClock } from "./support.ts";

/** A presence whose time of day goes with the clock, except where a test says otherwise. */
function watched() {
  const clock = new TestClock();
  const told: string[] = [];
  const world = { aheadMs: 0 };
  const presence = new Presence(clock, () => 1_790_000_000_000 + clock.now() + world.aheadMs, {
    park: () => told.push("park"),
    wake: (sleptMs) => told.push(sleptMs > 0 ? `wake after ${Math.round(sleptMs / 1000)} s` : "wake"),
    retryNow: () => told.push("retry"),
  });
  return { clock, told, world, presence };
}

test("a hidden tab goes on for a while, is parked, and wakes when it is looked at", () => {
  const { clock, told, presence } = watched();
  presence.hidden();
  clock.pass(PARK_AFTER_MS - 1);
  assert.deepEqual(told, []);
  clock.pass(1);
  presence.visible();
  assert.deepEqual(told, ["park", "wake"]);
  presence.hidden();
  clock.pass(1000);
  presence.visible();
  clock.pass(2 * PARK_AFTER_MS);
  assert.deepEqual(told, ["park", "wake", "wake"], "looked at in time, it is not parked");
});

test("a page that is put aside lets its link go at once, so that the browser can keep it", () => {
  const { clock, told, presence } = watched();
  presence.putAside();
  presence.visible();
  presence.online();
  assert.deepEqual(told, ["park"], "nothing is opened while it is aside");
  clock.pass(60_000);
  presence.takenUp();
  presence.takenUp();
  assert.deepEqual(told, ["park", "wake"]);
});

test("a machine that sleeps with the page on show is noticed by its clocks", () => {
  const { clock, told, world, presence } = watched();
  clock.pass(10 * LOOK_EVERY_MS);
  assert.deepEqual(told, []);
  world.aheadMs += 600_000; // timers stood still, the time of day did not
  clock.pass(LOOK_EVERY_MS);
  assert.deepEqual(told, ["wake after 600 s"]);
  clock.pass(10 * LOOK_EVERY_MS);
  assert.equal(told.length, 1);
  world.aheadMs -= 600_000; // somebody sets the clock back
  clock.pass(10 * LOOK_EVERY_MS);
  assert.equal(told.length, 1);
  presence.hidden();
  world.aheadMs += 600_000;
  clock.pass(LOOK_EVERY_MS);
  assert.equal(told.length, 1, "a hidden tab's timers are late by the browser's will");
});

test("a network that comes back is a hint to try at once", () => {
  const { told, presence } = watched();
  presence.online();
  assert.deepEqual(told, ["retry"]);
});
