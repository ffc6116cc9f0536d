import assert from "node:assert/strict";
import { test } from "node:test";
import { Overview, OVERVIEW_EVERY_MS } from "../src/overview.ts";
import { TestClock } from "./support.ts";

const settled = () => new Promise((resolve) => setImmediate(resolve));

test("an overview is kept fresh while somebody looks, tried again after a failure, and let go of", async () => {
  const clock = new TestClock();
  const shown: (string | null)[] = [];
  const world = { fetches: 0, fails: true, looking: true };
  const overview = new Overview({
    fetch: () => {
      world.fetches++;
      return world.fails ? Promise.reject(new Error("away")) : Promise.resolve({ name: `picture ${world.fetches}`, close: () => shown.push("closed") } as unknown as ImageBitmap);
    },
    after: (ms, fn) => clock.after(ms, fn),
    wanted: () => world.looking,
    show: (picture) => shown.push((picture as unknown as { name: string } | null)?.name ?? null),
  });
  overview.keep(true);
  await settled();
  world.fails = false;
  clock.pass(3000);
  await settled();
  assert.deepEqual(shown, ["picture 2"]);
  world.looking = false;
  clock.pass(5 * OVERVIEW_EVERY_MS);
  assert.equal(world.fetches, 2);
  world.looking = true;
  clock.pass(OVERVIEW_EVERY_MS);
  await settled();
  assert.deepEqual(shown, ["picture 2", "picture 3"]);
  clock.pass(OVERVIEW_EVERY_MS);
  overview.keep(false); // while the next one is under way
  await settled();
  assert.deepEqual(shown.slice(2), [null, "closed"]);
  clock.pass(10 * OVERVIEW_EVERY_MS);
  assert.equal(world.fetches, 4);
});
