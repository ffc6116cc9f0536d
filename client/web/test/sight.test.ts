// What eyes get: colours as they are shown, heat, choices that are remembered, the bell of one tab.

import assert from "node:assert/strict";
import { test } from "node:test";
import { mayRing } from "../src/bell.ts";
import { COLOUR_MODES, css, display, isLight, simulate, word } from "../src/colours.ts";
import { chunkID } from "../src/grid.ts";
import { Heat } from "../src/heat.ts";
import { symbolOf } from "../src/marks.ts";
import { reductionFor } from "../src/pages.ts";
import { DEFAULT_PREFS, parsePrefs } from "../src/prefs.ts";

const RED = 0xe50000;
const GREEN = 0x02be01;
const distance = (a: number, b: number) => Math.hypot((a >> 16) - (b >> 16), ((a >> 8) & 255) - ((b >> 8) & 255), (a & 255) - (b & 255));

test("colours that an eye cannot tell apart are told apart as they are shown", () => {
  for (const kind of ["protan", "deutan"] as const) {
    const before = distance(simulate(RED, kind), simulate(GREEN, kind));
    const after = distance(simulate(display(RED, kind), kind), simulate(display(GREEN, kind), kind));
    assert.ok(after > before * 1.1, `${kind}: ${before.toFixed(0)} became ${after.toFixed(0)}`);
  }
  assert.equal(display(RED, "painted"), RED);
  for (const mode of COLOUR_MODES) {
    for (const rgb of [0, 0xffffff, RED, GREEN, 0x0000ff]) {
      const shown = display(rgb, mode);
      assert.ok(Number.isInteger(shown) && shown >= 0 && shown <= 0xffffff, `${mode} ${css(rgb)}`);
    }
    assert.equal(display(0, mode), 0, "black stays black");
  }
  assert.ok(distance(display(0x0083c7, "contrast"), display(0x00d3dd, "contrast")) > distance(0x0083c7, 0x00d3dd));
  assert.equal(css(0x00ab01), "#00ab01");
  assert.equal(word(0x123456), 0xff563412);
  assert.deepEqual([isLight(0xffffff), isLight(0x000000)], [true, false]);
});

test("every colour of the palette has a symbol of its own", () => {
  assert.equal(new Set(Array.from({ length: 256 }, (_, i) => symbolOf(i))).size, 256);
});

test("reduced pages are at least as fine as the screen", () => {
  for (const zoom of [0.02, 0.1, 0.2, 0.21, 0.5, 0.51, 1, 64]) {
    const by = reductionFor(zoom);
    assert.ok(by === 1 || zoom * by <= 1, `${zoom}: by ${by}`);
  }
});

test("heat rises where people paint, fades, and draws the camera to what is hot and near", () => {
  const heat = new Heat();
  assert.equal(heat.hottest({ x: 0, y: 0 }, 0), null);
  heat.add(chunkID(0, 0), [0, 0, 1], 1000); // cell (0, 0)
  heat.add(chunkID(2, 1), [2499], 1000); // the last cell of that chunk
  const cells: number[][] = [];
  heat.each(1000, (col, row, warmth) => cells.push([col, row, warmth]));
  assert.deepEqual(cells, [[0, 0, 3], [14, 9, 1]]);
  assert.deepEqual(heat.hottest({ x: 0, y: 0 }, 1000), { x: 5, y: 5 });
  heat.each(16_000, (_, __, warmth) => cells.push([warmth]));
  assert.deepEqual(cells.slice(2), [[1.5], [0.5]], "half of it after fifteen seconds");
  heat.add(chunkID(199, 199), Array(4).fill(0), 16_000);
  assert.deepEqual(heat.hottest({ x: 9900, y: 9900 }, 16_000), { x: 9955, y: 9955 });
  assert.deepEqual(heat.hottest({ x: 0, y: 0 }, 16_000), { x: 5, y: 5 });
  heat.each(10 * 60_000, () => assert.fail("everything is cold by then"));
  assert.equal(heat.hottest({ x: 0, y: 0 }, 10 * 60_000), null);
});

test("choices are remembered; what makes no sense is not", () => {
  assert.deepEqual(parsePrefs(null), DEFAULT_PREFS);
  assert.deepEqual(parsePrefs("{"), DEFAULT_PREFS);
  assert.deepEqual(parsePrefs('{"grid":false,"heat":"yes","colours":"pink","other":1}'), { ...DEFAULT_PREFS, grid: false });
  assert.deepEqual(parsePrefs(JSON.stringify({ ...DEFAULT_PREFS, colours: "tritan" })).colours, "tritan");
});

test("of several tabs one rings", () => {
  const shelf = new Map<string, string>();
  const tabs = { getItem: (k: string) => shelf.get(k) ?? null, setItem: (k: string, v: string) => void shelf.set(k, v) };
  assert.equal(mayRing(tabs, 100_000), true);
  assert.equal(mayRing(tabs, 100_200), false);
  assert.equal(mayRing(tabs, 110_000), true, "the next cooldown's end");
  assert.equal(mayRing(tabs, 50_000), true, "somebody set the clock back");
  const refusing = { getItem: () => null, setItem: () => { throw new Error("full"); } };
  assert.equal(mayRing(refusing, 100_000), true);
});
