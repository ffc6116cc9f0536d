// What people do with the page, on a desktop and on a phone, against a real server (harness.mjs).

import assert from "node:assert/strict";
import { apart, api, BLUE, check, control, coords, DESKTOP, drawn, goClose, goTo, live, open, PHONE, pixel, placeAs, ready, RED, settings, shot, still, tapUntil, text, WAIT, waitPixel, WHITE, world, zoomOf } from "./harness.mjs";

let desktop;
let phone;
const MIDDLE = { x: 640, y: 360 };

check("the board is shown, small and whole, with its palette and a live connection", async () => {
  const picture = ["..rr.rr..", ".rrrrrrr.", ".rrrrrrr.", "..rrrrr..", "...rrr...", "....r...."];
  let n = 0;
  for (const [dy, row] of picture.entries()) {
    for (const [dx, c] of [...row].entries()) if (c === "r") await placeAs(`painter${n++}`, 496 + dx, 480 + dy, 5);
  }
  desktop = await open(DESKTOP, "");
  world.pages.desktop = desktop;
  assert.equal(await text(desktop, "#status-text"), "Live");
  assert.match(await text(desktop, "#account"), /^anon /);
  assert.equal(await desktop.locator("#palette input").count(), 17);
  assert.equal(await pixel(desktop, MIDDLE.x, 300), WHITE);
  assert.notEqual(await pixel(desktop, 100, 300), WHITE);
  await still(desktop);
  await shot(desktop, "desktop-board");
});

check("a click places a tile: a pending mark, then the tile, and the cooldown counts down", async () => {
  const held = [];
  let holding = false;
  const page = await open(DESKTOP, "ann", (p) =>
    // The node's words can be held back, so that the time between sending and the answer can be looked at.
    p.routeWebSocket(/\/api\/v1\/ws/, (socket) => {
      const node = socket.connectToServer();
      node.onMessage((m) => (holding ? held.push(() => socket.send(m)) : socket.send(m)));
    }),
  );
  await page.click('label[title="red"]');
  await goClose(page, 700, 300);
  await page.mouse.move(600, 330);
  const tile = await coords(page);
  holding = true;
  await page.mouse.click(600, 330);
  await page.waitForFunction(() => document.getElementById("board").dataset.pending === "1", null, WAIT);
  assert.equal(await text(page, "#timer-text"), "Placing…");
  await page.mouse.move(900, 500);
  await waitPixel(page, 600, 330, RED);
  await shot(page, "desktop-pending");
  holding = false;
  for (const send of held.splice(0)) send();
  await page.waitForFunction(() => document.getElementById("board").dataset.pending === "0", null, WAIT);
  await waitPixel(page, 600, 330, RED);
  const before = await text(page, "#timer-text");
  assert.match(before, /^Next tile in 0:0[1-6]$/);
  await page.waitForFunction((t) => document.getElementById("timer-text").textContent < t, before, WAIT);
  assert.match(await page.title(), /^0:0\d · placed$/);
  // In the last seconds of the cooldown a click arms the next tile; it goes out by itself.
  await page.waitForFunction(() => /0:0[1-4]/.test(document.getElementById("timer-text").textContent), null, WAIT);
  await page.mouse.click(600, 360);
  await page.waitForFunction(() => /as soon as/.test(document.getElementById("toasts").textContent), null, WAIT);
  assert.match(await text(page, "#timer-text"), /^Places in 0:0\d$/);
  await page.mouse.move(900, 500);
  await waitPixel(page, 600, 360, RED);
  await page.waitForFunction(() => window.pending_.join().endsWith("1,0") && window.pending_.filter((n) => n === "0").length >= 2, null, WAIT);
  const details = await api(`/api/v1/tiles/${tile.x}/${tile.y}`);
  assert.equal(details.user, "ann");
  await ready(page);
  assert.match(await page.title(), /^Ready/);
  await page.context().close();
});

check("another page sees the tile, and who placed it", async () => {
  await desktop.bringToFront();
  await goClose(desktop, MIDDLE.x, MIDDLE.y);
  await desktop.mouse.move(500, 300);
  const tile = await coords(desktop);
  assert.notEqual(await pixel(desktop, 500, 300), BLUE);
  await desktop.mouse.move(900, 500);
  await placeAs("zoe", tile.x, tile.y, 13);
  await waitPixel(desktop, 500, 300, BLUE);
  await desktop.mouse.click(500, 300);
  await desktop.waitForFunction(() => /placed by zoe, just now/.test(document.getElementById("tile").textContent), null, WAIT);
  assert.match(await text(desktop, "#tile-title"), new RegExp(`^\\(${tile.x}, ${tile.y}\\) blue$`));
  await shot(desktop, "desktop-details");
  await desktop.keyboard.press("Escape");
  assert.ok(await desktop.locator("#tile").isHidden());
});

check("a refusal takes the pending mark away and says why", async () => {
  await settings({ protected: [{ x: 0, y: 0, width: 1000, height: 1000 }] });
  const before = await pixel(desktop, 700, 300);
  await desktop.evaluate(() => (window.pending_.length = 0));
  await desktop.click('label[title="green"]');
  await desktop.mouse.click(700, 300);
  await desktop.waitForFunction(() => window.pending_.join() === "1,0", null, WAIT);
  assert.match(await text(desktop, "#toasts"), /That area is protected\./);
  await desktop.mouse.move(900, 500);
  await waitPixel(desktop, 700, 300, before);
  await ready(desktop);
  await settings({ protected: [] });
});

check("the phone: pinch, pan, choose a spot, confirm", async () => {
  phone = await open({ ...PHONE, colorScheme: "dark" }, "bob");
  world.pages.phone = phone;
  await still(phone);
  await shot(phone, "phone-board");
  assert.deepEqual(await phone.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.scrollHeight]), [412, 915]);
  await drawn(phone);

  const touch = await phone.context().newCDPSession(phone);
  const fingers = (type, ...points) => touch.send("Input.dispatchTouchEvent", { type, touchPoints: points.map(([x, y], id) => ({ x, y, id })) });
  const far = await zoomOf(phone);
  await fingers("touchStart", [180, 400], [230, 400]);
  for (let i = 1; i <= 10; i++) await fingers("touchMove", [180 - 15 * i, 400], [230 + 15 * i, 400]);
  await fingers("touchEnd");
  const near = await zoomOf(phone);
  assert.ok(near > far * 4, `pinch went from ${far} to ${near}`);

  await phone.locator('label[title="blue"]').tap();
  await goClose(phone, 200, 400, true);
  const before = await coords(phone);
  await fingers("touchStart", [200, 400]);
  for (let i = 1; i <= 8; i++) await fingers("touchMove", [200 - 12 * i, 400]);
  await still(phone); // a finger that rests before it is lifted flings nothing
  await fingers("touchEnd");
  assert.equal((await coords(phone)).x - before.x, 4, "one finger pans: 96 px of 24 px tiles");
  assert.ok(await phone.locator("#tile").isHidden(), "a pan is no tap");

  await tapUntil(phone, 210, 420, () => !document.getElementById("tile").hidden);
  await phone.waitForFunction(() => /Nobody|placed by/.test(document.getElementById("tile").textContent), null, WAIT);
  assert.deepEqual(await phone.evaluate(() => window.pending_), [], "a tap alone places nothing");
  await shot(phone, "phone-chosen");
  assert.equal(await text(phone, "#place"), "Place blue");
  for (const target of ["#place", "#zoom-in", "#palette label"]) {
    const box = await phone.locator(target).first().boundingBox();
    assert.ok(box.height >= 44 && box.width >= 40, `${target} is ${box.width}x${box.height}: too small for a thumb`);
  }
  await phone.locator("#place").tap();
  await phone.waitForFunction(() => document.getElementById("timer").dataset.state === "waiting", null, WAIT);
  await phone.waitForFunction(() => window.pending_.join() === "1,0" || window.pending_.join() === "1,1,0", null, WAIT);
  assert.equal(await pixel(phone, 210, 420), BLUE);
  await shot(phone, "phone-placed");
});

check("tiles are crisp at any device pixel ratio: no colour is shown that is neither a tile's nor the grid's", async () => {
  await phone.locator('label[title="Look at tiles"]').tap();
  const seen = await phone.evaluate(() => {
    const board = document.getElementById("board");
    const data = board.getContext("2d").getImageData(0, 0, board.width, board.height).data;
    const colours = new Set();
    for (let i = 0; i < data.length; i += 4) colours.add(data.slice(i, i + 3).join());
    return [...colours];
  });
  const tiles = (await api("/api/v1/config")).settings.palette.map(({ rgb }) => [rgb >> 16, (rgb >> 8) & 255, rgb & 255]);
  const lined = (list) => list.map((t) => t.map((v, i) => v + ([110, 120, 135][i] - v) * 0.22));
  const known = [...tiles, ...lined(tiles), ...lined(lined(tiles))]; // where lines cross, too
  const strange = seen.filter((c) => !known.some((k) => c.split(",").every((v, i) => Math.abs(Number(v) - k[i]) <= 2)));
  assert.ok(seen.length >= 4, "there is something to see");
  assert.deepEqual(strange, []);
});

check("keys pan and zoom; nothing runs when nothing moves", async () => {
  await desktop.bringToFront();
  await desktop.keyboard.press("Escape");
  await desktop.mouse.move(900, 500);
  await desktop.evaluate(() => document.activeElement.blur());
  const before = await coords(desktop);
  await desktop.keyboard.down("ArrowRight");
  await desktop.waitForFunction((x) => Number(/\((\d+),/.exec(document.getElementById("coords").textContent)[1]) > x + 3, before.x, WAIT);
  await desktop.keyboard.up("ArrowRight");
  await desktop.keyboard.down("KeyW");
  await desktop.waitForFunction((y) => Number(/, (\d+)\)/.exec(document.getElementById("coords").textContent)[1]) < y - 3, before.y, WAIT);
  await desktop.keyboard.up("KeyW");
  const zoom = await zoomOf(desktop);
  await desktop.keyboard.press("-");
  await still(desktop);
  assert.ok((await zoomOf(desktop)) < zoom);
  await desktop.keyboard.press("+");
  await still(desktop);
  await desktop.mouse.wheel(0, -600);
  await desktop.waitForFunction((z) => parseFloat(/([\d.]+)×/.exec(document.getElementById("coords").textContent)[1]) > z, zoom, WAIT);
  for (let i = 0; i < 8; i++) await desktop.mouse.wheel(0, -600);
  await desktop.waitForFunction(() => document.getElementById("coords").textContent.endsWith(" 64×"), null, WAIT);
  await still(desktop);
  const frames = await desktop.evaluate(() => window.frames_);
  await desktop.evaluate(() => new Promise((resolve) => setTimeout(resolve, 600)));
  assert.ok((await desktop.evaluate(() => window.frames_)) - frames <= 1, "animation frames while idle");
});

check("settings arrive without a reload: announcement, frozen, palette, size", async () => {
  await desktop.evaluate(() => (window.mark_ = "the same page"));
  await settings({ announcement: "Tonight <b>we</b> paint stars", frozen: true });
  await desktop.waitForSelector("#announcement:not([hidden])", WAIT);
  assert.equal(await text(desktop, "#announcement-text"), "Tonight <b>we</b> paint stars");
  assert.match(await text(desktop, "#frozen"), /frozen/);
  await shot(phone, "phone-frozen");
  await desktop.click('label[title="red"]');
  await desktop.mouse.click(500, 300);
  await desktop.waitForFunction(() => /frozen/.test(document.getElementById("toasts").textContent), null, WAIT);
  const palette = (await api("/api/v1/config")).settings.palette;
  palette[0].rgb = 0xfff4d6;
  palette.push({ name: "navy", rgb: 0x001f54 });
  await settings({ announcement: "", frozen: false, palette, width: 1200 });
  await desktop.waitForSelector('label[title="navy"]', WAIT);
  assert.equal(await desktop.locator('label[title="red"] input').isChecked(), true, "the colour in hand stays");
  await desktop.click("#zoom-fit");
  await still(desktop);
  await waitPixel(desktop, MIDDLE.x, 250, "255,244,214");
  await placeAs("far", 1199, 500, 16);
  await settings({ width: 1000 });
  await placeAs("near", 0, 0, 16);
  assert.equal(await desktop.evaluate(() => window.mark_), "the same page");
  assert.equal(await text(desktop, "#status-text"), "Live");
});

check("a restart of the server, in peace and by force, without a reload", async () => {
  await desktop.bringToFront();
  await settings({ announcement: "Tonight at nine we all paint stars in the upper left corner: come and help!" });
  await phone.waitForSelector("#announcement:not([hidden])", WAIT);
  for (const end of ["stop", "kill"]) {
    world.serverAway = true;
    await control(end);
    await desktop.waitForSelector('#status[data-state="waiting"]', WAIT);
    assert.match(await text(desktop, "#status-text"), /^Reconnecting in \d+ s · board as of /);
    if (end === "stop") {
      await phone.waitForSelector('#status[data-state="waiting"]', WAIT);
      await shot(desktop, "desktop-reconnecting");
      await shot(phone, "phone-reconnecting");
      for (const width of [360, 412]) {
        await phone.setViewportSize({ width, height: PHONE.viewport.height });
        await phone.waitForFunction((w) => innerWidth === w, width, WAIT);
        await apart(phone, `reconnecting, ${width} px wide`);
        const box = await phone.locator("#retry").boundingBox();
        assert.ok(box.x >= 0 && box.x + box.width <= width, "retry lies outside a phone's width");
      }
    }
    await control("start");
    await placeAs(`missed-${end}`, 500, 500, end === "stop" ? 13 : 5);
    if (end === "kill") await desktop.evaluate(() => document.getElementById("retry").click());
    await live(desktop, { timeout: 40_000 }); // the pauses grow while a slow machine starts the server
    await live(phone, { timeout: 40_000 });
    world.serverAway = false;
    await desktop.click("#zoom-fit");
    await still(desktop);
    await goTo(desktop, 500, 500);
    await waitPixel(desktop, 640, 400, end === "stop" ? BLUE : RED);
  }
  await settings({ announcement: "" });
  assert.equal(await desktop.evaluate(() => window.mark_), "the same page");
});

check("after all this the pages still hold what the node holds", async () => {
  await Promise.all([desktop, phone].map((page) => page.waitForFunction(() => document.documentElement.dataset.divergences !== undefined, null, WAIT)));
  for (const page of [desktop, phone]) assert.equal(await page.evaluate(() => document.documentElement.dataset.divergences), "0");
});
