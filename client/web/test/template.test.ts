import assert from "node:assert/strict";
import { test } from "node:test";
import { formatTemplate, matchPixels, mayLoad, NO_COLOUR, parseTemplate, Template } from "../src/template.ts";

const PALETTE = [
  { name: "white", rgb: 0xffffff, closed: false }, { name: "red", rgb: 0xe50000, closed: false },
  { name: "old red", rgb: 0xff0000, closed: true }, { name: "blue", rgb: 0x0000ea, closed: false },
];

test("pixels become the open colour next to them, transparent ones none", () => {
  const pixels = Uint8ClampedArray.from([255, 0, 0, 255, 250, 250, 250, 255, 10, 10, 200, 255, 1, 2, 3, 0]);
  assert.deepEqual([...matchPixels(pixels, PALETTE)], [1, 0, 3, NO_COLOUR]);
  assert.deepEqual([...matchPixels(pixels, [])], [NO_COLOUR, NO_COLOUR, NO_COLOUR, NO_COLOUR]);
});

test("it counts what is right in slices and finds the wrong tiles one after another, round and round", () => {
  const board = new Map<string, number>();
  const painted = { colourAt: (x: number, y: number) => board.get(`${x},${y}`) ?? 0 };
  const template = new Template(3, 2, Int16Array.from([1, NO_COLOUR, 0, 3, 1, 1]), 10, 20);
  const count = () => {
    for (let i = 0; i < 10; i++) {
      const progress = template.count(painted, 2);
      if (progress !== null) return progress;
    }
    return assert.fail("the count does not end");
  };
  assert.deepEqual(count(), { right: 1, all: 5 });
  const first = template.nextWrong(painted, null);
  assert.deepEqual(first, { x: 10, y: 20, colour: 1 });
  assert.deepEqual(template.nextWrong(painted, first), { x: 10, y: 21, colour: 3 });
  assert.deepEqual(template.nextWrong(painted, { x: 12, y: 21 }), first, "from the last to the first");
  for (const [x, y, colour] of [[10, 20, 1], [10, 21, 3], [11, 21, 1], [12, 21, 1]] as const) board.set(`${x},${y}`, colour);
  assert.equal(template.nextWrong(painted, first), null);
  assert.deepEqual(count(), { right: 5, all: 5 });
  board.set("12,21", 0);
  assert.deepEqual(template.nextWrong(painted, first), { x: 12, y: 21, colour: 1 });
});

test("a link carries a template, and pages load pictures of their own host or of the link alone", () => {
  const link = { src: "data:image/png;base64,AA+/=&x", x: 5, y: 9999 };
  assert.deepEqual(parseTemplate(formatTemplate(link)), link);
  for (const bad of ["", "&template=&tx=1&ty=1", "&template=a&tx=-1&ty=1", "&template=a&tx=1.5&ty=1", "&template=a&tx=10000&ty=0"]) assert.equal(parseTemplate(bad), null, bad);
  const base = "https://board.example/b/";
  for (const good of ["data:image/png;base64,AAAA", "pictures/a.png", "/a.png", "https://board.example/a.png"]) assert.ok(mayLoad(good, base), good);
  for (const bad of ["https://elsewhere.example/a.png", "//elsewhere.example/a.png", "data:image/svg+xml;base64,AAAA", "data:text/html,x", "javascript:alert(1)", "blob:https://board.example/1", "http://board.example/a.png"]) {
    assert.ok(!mayLoad(bad, base), bad);
  }
});
