// The camera's arithmetic: what is under a finger stays there, the view never leaves the board, and tiles are whole device pixels.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Camera, ZOOM_MAX } from "../src/camera.ts";
import { seeded } from "./support.ts";

function camera(ratio = 1): Camera {
  const c = new Camera();
  c.setViewport(800, 600, ratio);
  c.setBoard(1000, 1000);
  c.fit();
  return c;
}

const near = (got: number, want: number, slack = 1e-6) => assert.ok(Math.abs(got - want) <= slack, `${got}, want ${want}`);

test("fit shows the whole board, between what is covered", () => {
  const c = camera();
  const corner = c.toBoard(0, 0);
  const opposite = c.toBoard(800, 600);
  assert.ok(corner.x < 0 && corner.y < 0 && opposite.x > 1000 && opposite.y > 1000);
  c.setViewport(800, 600, 1, 60, 140);
  assert.ok(c.fitted);
  assert.ok(c.toBoard(400, 60).y < 0, "nothing lies under the upper panels");
  assert.ok(c.toBoard(400, 460).y > 1000, "nor under the lower ones");
});

test("a small board is not enlarged beyond the closest look", () => {
  const c = new Camera();
  c.setViewport(800, 600, 1);
  c.setBoard(5, 5);
  c.fit();
  assert.equal(c.view.zoom, ZOOM_MAX);
});

test("zoom goes from a tenth to 64", () => {
  const c = camera();
  c.zoomAt(400, 300, 1000);
  assert.equal(c.view.zoom, 64);
  c.zoomAt(400, 300, 0);
  assert.equal(c.view.zoom, c.zoomMin);
  assert.ok(c.zoomMin > 0 && c.zoomMin <= 0.1 && c.zoomMin < c.fitZoom);
});

test("zooming keeps the point under the pointer, whatever the view", () => {
  const random = seeded(7);
  const c = camera();
  for (let i = 0; i < 500; i++) {
    // Stay away from edges: there the view is clamped and the anchor gives way.
    c.zoomAt(400, 300, 4 + random() * 30);
    c.flyTo({ x: 300 + random() * 400, y: 300 + random() * 400, zoom: c.view.zoom }, 0, 0);
    const [px, py] = [random() * 800, random() * 600];
    const before = c.toBoard(px, py);
    c.zoomAt(px, py, 4 + random() * 36);
    const after = c.toBoard(px, py);
    near(after.x, before.x);
    near(after.y, before.y);
  }
});

test("panning moves the board with the finger and stops with the middle on the board", () => {
  const c = camera();
  c.zoomAt(400, 300, 10);
  const before = c.toBoard(100, 100);
  c.panBy(30, -50);
  const after = c.toBoard(130, 50);
  near(after.x, before.x);
  near(after.y, before.y);
  c.panBy(1e9, 1e9);
  assert.deepEqual([c.view.x, c.view.y], [0, 0]);
  c.panBy(-1e9, -1e9);
  assert.deepEqual([c.view.x, c.view.y], [1000, 1000]);
});

test("steps and rests are whole device pixels per tile, and every step changes the zoom", () => {
  for (const ratio of [1, 1.25, 1.5, 2, 2.625, 3]) {
    const c = camera(ratio);
    const whole = () => near((c.view.zoom * ratio) % 1 < 0.5 ? (c.view.zoom * ratio) % 1 : 1 - ((c.view.zoom * ratio) % 1), 0);
    for (let zoom = c.view.zoom; zoom < 39; zoom = c.view.zoom) {
      c.zoomStep(400, 300, 1.1);
      assert.ok(c.view.zoom > zoom, `ratio ${ratio}: stuck at ${zoom}`);
      if (c.view.zoom * ratio >= 1 && c.view.zoom < ZOOM_MAX) whole();
    }
    for (let zoom = c.view.zoom; zoom > c.zoomMin * 1.01; zoom = c.view.zoom) {
      c.zoomStep(400, 300, 1 / 1.1);
      assert.ok(c.view.zoom < zoom, `ratio ${ratio}: stuck at ${zoom}`);
    }
    c.zoomAt(400, 300, 7.3);
    c.settle(400, 300);
    whole();
  }
});

test("neighbouring tiles share their edge in device pixels", () => {
  const c = camera(2.625);
  c.zoomAt(400, 300, 5.37);
  for (let x = 480; x < 520; x++) {
    const wide = c.deviceX(x + 1) - c.deviceX(x);
    assert.ok(Number.isInteger(wide) && Math.abs(wide - 5.37 * 2.625) <= 1);
  }
});

test("the tile under a point, and none off the board", () => {
  const c = camera();
  c.flyTo({ x: 10.5, y: 20.5, zoom: 20 }, 0, 0);
  assert.deepEqual(c.tileAt(400, 300), { x: 10, y: 20 });
  assert.deepEqual(c.tileAt(419, 300), { x: 11, y: 20 });
  assert.equal(c.tileAt(0, 300), null);
});

test("a flight ends where it should, on time, and keeps its anchor on the way", () => {
  const c = camera();
  c.flyTo({ x: 500, y: 500, zoom: 8 }, 0, 0);
  const anchor = c.toBoard(700, 100);
  c.flyStep(700, 100, 2, 1000, 200);
  assert.ok(c.step(1000));
  for (const now of [1020, 1080, 1150]) {
    assert.ok(c.step(now));
    const at = c.toBoard(700, 100);
    near(at.x, anchor.x);
    near(at.y, anchor.y);
  }
  assert.equal(c.step(1200), false);
  assert.equal(c.view.zoom, 16);
  near(c.toBoard(700, 100).x, anchor.x);
  assert.equal(c.step(1300), false, "and nothing runs afterwards");
});

test("a board that grows keeps the view; one that shrinks pulls it in", () => {
  const c = camera();
  c.flyTo({ x: 900, y: 900, zoom: 10 }, 0, 0);
  c.setBoard(2000, 2000);
  assert.deepEqual(c.view, { x: 900, y: 900, zoom: 10 });
  c.setBoard(500, 2000);
  assert.deepEqual(c.view, { x: 500, y: 900, zoom: 10 });
});

test("a tile is brought into view and away from what panels cover; one that shows moves nothing", () => {
  const c = camera();
  c.zoomAt(400, 300, 16);
  c.setViewport(800, 600, 1, 60, 200);
  c.flyTo({ x: 500, y: 500, zoom: 16 }, 0, 0);
  const before = c.view;
  c.flyToShow({ x: 501, y: 499 }, 0, 0, 0);
  assert.deepEqual(c.view, before);
  for (const tile of [{ x: 600, y: 500 }, { x: 400, y: 510 }, { x: 500, y: 530 }, { x: 500, y: 460 }]) {
    c.flyToShow(tile, 0, 0, 0);
    const px = (tile.x + 0.5 - c.view.x) * c.view.zoom + 400;
    const py = (tile.y + 0.5 - c.view.y) * c.view.zoom + 300;
    assert.ok(px > 16 && px < 784 && py > 76 && py < 384, `${JSON.stringify(tile)} shows at ${px}, ${py}`);
  }
  c.flyToShow({ x: 10, y: 10 }, 24, 0, 0);
  assert.equal(c.view.zoom, 24);
});
