import assert from "node:assert/strict";
import { test } from "node:test";
import { clockText, Cooldown } from "../src/cooldown.ts";
import { TestClock } from "./support.ts";

test("counts down from what the node says, to zero and no further", () => {
  const clock = new TestClock();
  const c = new Cooldown(clock);
  assert.equal(c.known, false);
  assert.equal(c.leftMs(), 0);
  c.set(300_000);
  assert.ok(c.known);
  clock.pass(1);
  assert.equal(c.leftMs(), 299_999);
  clock.pass(400_000);
  assert.equal(c.leftMs(), 0);
  assert.ok(c.known);
});

test("a later word of the node wins, shorter or longer", () => {
  const clock = new TestClock();
  const c = new Cooldown(clock);
  c.set(300_000);
  c.set(10_000);
  assert.equal(c.leftMs(), 10_000);
  c.set(20_000);
  assert.equal(c.leftMs(), 20_000);
});

test("a clock that stood still in a sleep is put right by the node's time", () => {
  const clock = new TestClock();
  const c = new Cooldown(clock);
  c.observe(1_790_000_000_000);
  c.set(300_000);
  clock.pass(10_000);
  c.observe(1_790_000_010_000);
  assert.equal(c.leftMs(), 290_000);
  // The machine slept for two minutes, in which its clock did not move.
  c.observe(1_790_000_130_000);
  assert.equal(c.leftMs(), 170_000);
});

test("the network's small delays do not make the countdown jump", () => {
  const clock = new TestClock();
  const c = new Cooldown(clock);
  c.observe(1_790_000_000_000);
  c.set(300_000);
  clock.pass(10_000);
  c.observe(1_790_000_009_300);
  assert.equal(c.leftMs(), 290_000);
});

test("a sleep before the first time of the node is not made up", () => {
  const clock = new TestClock();
  const c = new Cooldown(clock);
  c.set(60_000);
  c.observe(1_790_000_000_000);
  assert.equal(c.leftMs(), 60_000);
  c.forget();
  c.observe(1_790_000_500_000);
  assert.equal(c.known, false);
});

test("the text of a wait", () => {
  for (const [ms, text] of [[1, "0:01"], [1000, "0:01"], [1001, "0:02"], [59_999, "1:00"], [300_000, "5:00"], [3_599_001, "1:00:00"], [86_400_000, "24:00:00"]] as const) {
    assert.equal(clockText(ms), text, String(ms));
  }
});
