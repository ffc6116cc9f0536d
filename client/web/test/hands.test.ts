// What hands and addresses mean: keys, inertia, links, tiles as people write them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { formatHash, parseHash, parseTile, randomTile, restOfHash } from "../src/address.ts";
import { Glide } from "../src/glide.ts";
import { COLOUR_KEYS, keyOf } from "../src/keys.ts";
import { seeded } from "./support.ts";

const press = (code: string, key: string, shiftKey = false) => ({ code, key, shiftKey });

test("a link shows the spot that it was copied at", () => {
  assert.deepEqual(parseHash("#120,44,24"), { x: 120.5, y: 44.5, zoom: 24 });
  assert.deepEqual(parseHash("#120,44"), { x: 120.5, y: 44.5, zoom: 24 });
  assert.deepEqual(parseHash("#x=7&y=9"), { x: 7.5, y: 9.5, zoom: 24 }, "links of 2017");
  for (const zoom of [0.1, 0.62, 1, 3.5, 40, 64]) {
    const view = parseHash(formatHash({ x: 999.9, y: 0.2, zoom }))!;
    assert.deepEqual([Math.floor(view.x), Math.floor(view.y)], [999, 0]);
    assert.ok(Math.abs(view.zoom / zoom - 1) < 0.05, `${zoom} became ${view.zoom}`);
  }
  for (const bad of ["", "#", "#1", "#a,b", "#-1,2", "#1,2,x", "#1.5,2", "#123456,1", "#x=1", "#<script>"]) assert.equal(parseHash(bad), null, bad);
  assert.equal(restOfHash("#1,2,3&t=a&u=b"), "&t=a&u=b");
  assert.equal(restOfHash("#x=1&y=2"), "");
  assert.deepEqual(parseHash("#1,2,3&t=a"), { x: 1.5, y: 2.5, zoom: 3 });
});

test("tiles as people write them", () => {
  for (const text of ["12, 34", "12,34", "(12, 34)", " 12 34 ", "#12,34", "12;34", "12/34"]) assert.deepEqual(parseTile(text, 100, 100), { x: 12, y: 34 }, text);
  for (const text of ["", "12", "a b", "100, 3", "3, 100", "-1, 2", "1,2,3"]) assert.equal(parseTile(text, 100, 100), null, text);
});

test("a random spot keeps away from the edges where there is room", () => {
  const random = seeded(1);
  for (let i = 0; i < 500; i++) {
    const { x, y } = randomTile(1000, 10, random);
    assert.ok(x >= 100 && x < 900 && y >= 2 && y < 8, `${x}, ${y}`);
  }
  assert.deepEqual(randomTile(1, 1, () => 0.999), { x: 0, y: 0 });
});

test("arrows steer or pan, WASD pans by place, letters and digits choose colours by print", () => {
  assert.deepEqual(keyOf(press("ArrowLeft", "ArrowLeft"), true), { kind: "move", dx: -1, dy: 0 });
  assert.deepEqual(keyOf(press("ArrowDown", "ArrowDown", true), true), { kind: "move", dx: 0, dy: 10 });
  assert.deepEqual(keyOf(press("ArrowLeft", "ArrowLeft"), false), { kind: "pan" });
  assert.deepEqual(keyOf(press("KeyW", "z"), true), { kind: "pan" }, "a French keyboard");
  assert.deepEqual(keyOf(press("KeyS", "o"), false), { kind: "pan" }, "Dvorak: the place wins");
  assert.deepEqual(keyOf(press("Digit1", "1"), false), { kind: "colour", index: 0 });
  assert.deepEqual(keyOf(press("KeyP", "P"), false), { kind: "colour", index: 15 });
  assert.equal(new Set(COLOUR_KEYS).size, 16);
  assert.deepEqual(keyOf(press("Enter", "Enter"), false), { kind: "enter" });
  for (const [key, kind] of [["+", "zoomIn"], ["-", "zoomOut"], ["i", "inspect"], ["G", "grid"], ["h", "heat"], ["m", "menu"], ["Escape", "escape"]] as const) {
    assert.deepEqual(keyOf(press("", key), false), { kind });
  }
  assert.equal(keyOf(press("F5", "F5"), false), null);
  assert.equal(keyOf(press("Tab", "Tab"), true), null);
});

test("a board let go of in motion glides on and comes to rest; one held still does not", () => {
  const glide = new Glide();
  for (let i = 0; i <= 10; i++) glide.sample(100 - 10 * i, 50, 1000 + 10 * i);
  assert.ok(glide.release(1105));
  let [x, ms, steps] = [0, 1105, 0];
  for (let step = glide.step(ms); step !== null; step = glide.step((ms += 16))) {
    assert.ok(step.dx < 0 && step.dy === 0);
    x += step.dx;
    assert.ok(++steps < 300, "it never rests");
  }
  assert.ok(x < -150 && x > -700, `it went ${x} px`);
  for (let i = 0; i <= 10; i++) glide.sample(100 - 10 * i, 50, 1000 + 10 * i);
  assert.equal(glide.release(1400), false, "the finger rested");
  glide.sample(1, 1, 5);
  assert.equal(glide.release(6), false);
  assert.equal(glide.step(7), null);
});
