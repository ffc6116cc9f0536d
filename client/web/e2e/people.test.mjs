// The page for everybody: keyboards alone, screen readers, other languages, thumbs, groups with a template; and pages that sleep,
// are put aside, and meet a storm. Run by page_test.go like page.test.mjs.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { apart, api, check, DESKTOP, goTo, live, open, PHONE, placeAs, ready, settings, shot, still, tapUntil, text, WAIT, waitPixel, RED } from "./harness.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Fails on anything that axe-core finds wrong with the page as it is. */
async function accessible(page, what) {
  await page.evaluate(`${axe};0`);
  const { violations, passes } = await page.evaluate(() => window.axe.run());
  assert.ok(passes.length > 10, `${what}: axe has looked at something`);
  assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html.slice(0, 120)).join(" | ")}`), [], what);
}

const spoken = (page, pattern) => page.waitForFunction((p) => new RegExp(p).test(document.getElementById("spoken").textContent), pattern, WAIT);

check("a keyboard alone: steer, hear, choose, place, inspect", async () => {
  const page = await open(DESKTOP, "keys");
  const focused = () => page.evaluate(() => document.activeElement.id);
  for (let i = 0; i < 12 && (await focused()) !== "board"; i++) await page.keyboard.press("Shift+Tab");
  assert.equal(await page.evaluate(() => document.activeElement.id), "board");
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(() => / 24×$/.test(document.getElementById("coords").textContent), null, WAIT);
  await still(page);
  const before = /\((\d+), (\d+)\)/.exec(await text(page, "#coords")).slice(1).map(Number);
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Shift+ArrowDown");
  const [x, y] = [before[0] + 1, before[1] + 10];
  await spoken(page, `^x ${x}, y ${y}, white$`);
  await page.keyboard.press("6"); // the sixth colour
  assert.equal(await text(page, "#brush"), "red");
  await page.keyboard.press("Enter");
  await spoken(page, `Placed red at ${x}, ${y}`);
  assert.equal((await api(`/api/v1/tiles/${x}/${y}`)).user, "keys");
  await page.keyboard.press("i");
  await spoken(page, `^x ${x}, y ${y}, red, placed by keys`);
  await page.click("#past summary");
  await page.waitForFunction(() => /red, placed by keys/.test(document.getElementById("past-list").textContent), null, WAIT);
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  assert.ok(await page.locator("#tile").isHidden());
  await page.context().close();
});

check("axe finds nothing wrong, on a desktop and on a phone, in the dark too", async () => {
  const page = await open({ ...DESKTOP, colorScheme: "dark" }, "");
  await goTo(page, 300, 300);
  await accessible(page, "the board");
  await page.mouse.click(600, 330);
  await page.waitForFunction(() => /Nobody|placed by/.test(document.getElementById("tile").textContent), null, WAIT);
  await page.click("#past summary");
  await accessible(page, "a tile's card");
  await page.click("#account");
  await accessible(page, "signing in");
  await page.keyboard.press("Escape");
  await page.click("#menu-open");
  await accessible(page, "the menu");
  await shot(page, "desktop-menu");
  await page.click("#template-open");
  await accessible(page, "the template");
  await page.context().close();
  const phone = await open(PHONE, "");
  await accessible(phone, "a phone");
  await phone.locator("#menu-open").tap();
  await accessible(phone, "the menu on a phone");
  await shot(phone, "phone-menu");
  await phone.context().close();
});

check("the browser's language, and another by choice, without a reload", async () => {
  const page = await open({ ...DESKTOP, locale: "pl-PL" }, "");
  assert.equal(await text(page, "#status-text"), "Na żywo");
  assert.equal(await page.evaluate(() => document.documentElement.lang), "pl");
  await page.evaluate(() => (window.mark_ = "the same page"));
  await page.click("#menu-open");
  await page.selectOption("#language", "de");
  await page.waitForFunction(() => document.getElementById("menu-title").textContent === "Menü", null, WAIT);
  assert.ok((await page.locator('label[title="Rot"]').count()) === 1);
  assert.equal(await page.evaluate(() => window.mark_), "the same page");
  await page.context().close();
});

check("a finger chooses under the loupe and places exactly there", async () => {
  const page = await open(PHONE, "thumb");
  await goTo(page, 200, 200);
  await page.locator('label[title="red"]').tap();
  await tapUntil(page, 206, 300, () => !document.getElementById("loupe").hidden);
  const first = (await page.locator("#tile").getAttribute("data-at")).split(",").map(Number);
  const box = await page.locator("#loupe").boundingBox();
  assert.ok(box.x >= 0 && box.y >= 0 && box.x + box.width <= 412, "the loupe is on the screen");
  await page.touchscreen.tap(box.x + box.width * (5.5 / 7), box.y + box.height * (2.5 / 7)); // two to the right, one up
  await page.waitForFunction((at) => document.getElementById("tile").dataset.at === at, `${first[0] + 2},${first[1] - 1}`, WAIT);
  await shot(page, "phone-loupe");
  await page.locator("#place").tap();
  await page.waitForFunction(() => document.getElementById("timer").dataset.state === "waiting", null, WAIT);
  assert.equal((await api(`/api/v1/tiles/${first[0] + 2}/${first[1] - 1}`)).user, "thumb");
  await page.context().close();
});

check("a template by link: how far it is painted, the next wrong tile, and no clicks are lost to it", async () => {
  const page = await open(DESKTOP, "");
  const src = await page.evaluate(() => {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 4;
    const context = canvas.getContext("2d");
    context.fillStyle = "#e50000";
    context.fillRect(0, 0, 4, 4);
    return canvas.toDataURL();
  });
  await page.context().close();
  const hash = `#702,702,24&template=${encodeURIComponent(src)}&tx=700&ty=700`;
  const traced = await open(DESKTOP, "", null, hash);
  const progress = (want) => traced.waitForFunction((w) => document.getElementById("template-progress").textContent === w, want, WAIT);
  await progress("0 % · 16 to go");
  await placeAs("tracer", 700, 700, 5);
  await progress("6 % · 15 to go");
  await traced.keyboard.press("n");
  await traced.waitForFunction(() => document.getElementById("brush").textContent === "red", null, WAIT);
  await still(traced);
  assert.match(await text(traced, "#coords"), /^\(701, 700\)/);
  await shot(traced, "desktop-template");
  await traced.keyboard.press("Escape");
  await traced.mouse.click(640, 400);
  await traced.waitForFunction(() => document.getElementById("tile").dataset.at === "701,700", null, WAIT);
  await traced.context().close();
});

check("a page put aside and a machine that slept come back by themselves with what they missed", async () => {
  let sockets = 0;
  const page = await open(DESKTOP, "", (p) => p.on("websocket", () => sockets++));
  await goTo(page, 150, 150);
  await page.evaluate(() => window.dispatchEvent(new PageTransitionEvent("pagehide", { persisted: true })));
  await page.waitForSelector('#status[data-state="parked"]', WAIT);
  assert.match(await text(page, "#status-text"), /^Paused · board as of /);
  await placeAs("meanwhile", 150, 150, 5);
  await page.evaluate(() => window.dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true })));
  await live(page);
  await waitPixel(page, 640, 400, RED);
  assert.equal(sockets, 2);
  await page.evaluate(() => {
    const now = Date.now;
    Date.now = () => now() + 600_000; // the time of day leaps, the timers do not: the machine has slept
  });
  for (let i = 0; sockets < 3 && i < 150; i++) await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 100)));
  assert.equal(sockets, 3, "the link is tried anew");
  await live(page);
  await page.context().close();
});

check("the board as a picture, and a link to a spot", async () => {
  const page = await open({ ...DESKTOP, permissions: ["clipboard-read", "clipboard-write"] }, "");
  await goTo(page, 321, 654);
  await page.click("#menu-open");
  const [download] = await Promise.all([page.waitForEvent("download", WAIT), page.click("#save-png")]);
  assert.match(download.suggestedFilename(), /^board-.*\.png$/);
  const png = readFileSync(await download.path());
  assert.deepEqual([png.readUInt32BE(16), png.readUInt32BE(20)], [1000, 1000]);
  await page.click("#menu-open");
  await page.click("#copy-link");
  await page.waitForFunction(() => /copied/.test(document.getElementById("toasts").textContent), null, WAIT);
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /#321,654,24$/);
  assert.equal(await page.evaluate(() => history.length), 3, "moving about leaves no trail in the history");
  await page.click("#menu-open");
  await page.fill("#goto-text", "99999, 1");
  await page.keyboard.press("Enter");
  assert.match(await text(page, "#goto-error"), /tile of this board/);
  await page.fill("#goto-text", "(10, 20)");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash === "#10,20,24", null, WAIT);
  await page.context().close();
});

check("two pages converge under a storm", async () => {
  const pages = [await open(DESKTOP, ""), await open(DESKTOP, "")];
  await settings({ cooldown_ms: 0 });
  const people = await Promise.all(Array.from({ length: 12 }, (_, i) => placeAs(`storm${i}`, 400 + i, 400, 1).then(() => `storm${i}`)));
  await Promise.all(people.map(async (name, n) => {
    for (let i = 0; i < 40; i++) await placeAs(name, 380 + ((i * 7 + n) % 40), 380 + ((i * 3 + n * 5) % 40), (i + n) % 16);
  }));
  await settings({ cooldown_ms: 6000 });
  for (const page of pages) {
    await page.bringToFront(); // pages that are not in front are not drawn
    await goTo(page, 400, 400);
  }
  const seen = async (page) => {
    await page.bringToFront();
    await still(page);
    return page.evaluate(() => document.getElementById("board").toDataURL());
  };
  let same = false;
  for (let i = 0; !same && i < 20; i++) same = (await seen(pages[0])) === (await seen(pages[1]));
  assert.ok(same, "both show the same");
  for (const page of pages) {
    await page.waitForFunction(() => document.documentElement.dataset.divergences !== undefined, null, WAIT);
    assert.equal(await page.evaluate(() => document.documentElement.dataset.divergences), "0");
    await page.context().close();
  }
});

check("nothing covers anything: a long announcement, frozen, close up, on every width", async () => {
  const page = await open(PHONE, "");
  await settings({ announcement: "Tonight at nine we all paint stars in the upper left corner: come and help!" });
  await page.waitForSelector("#announcement:not([hidden])", WAIT);
  const lines = await page.evaluate(() => document.getElementById("announcement-text").getBoundingClientRect().height / 20);
  assert.ok(lines >= 2, `the announcement takes ${lines} lines`);
  for (const frozen of [false, true]) {
    await settings({ frozen });
    await page.waitForSelector("#frozen", { state: frozen ? "visible" : "hidden", ...WAIT });
    for (const zoom of ["far", "close"]) {
      if (zoom === "close") await goTo(page, 300, 300);
      else await page.click("#zoom-fit");
      await still(page);
      for (const [width, height] of [[360, 640], [412, 915], [1280, 800]]) {
        await page.setViewportSize({ width, height });
        await page.waitForFunction((w) => innerWidth === w, width, WAIT);
        await apart(page, `${width}x${height}, frozen: ${frozen}, ${zoom}`);
        await shot(page, `banners-${width}-${frozen ? "frozen" : "open"}-${zoom}`);
      }
    }
  }
  await page.setViewportSize(PHONE.viewport);
  assert.ok(await page.locator("#minimap").isVisible());
  await page.locator("#announcement-close").tap();
  await page.waitForSelector("#announcement", { state: "hidden", ...WAIT });
  await settings({ announcement: "", frozen: false });
  await page.context().close();
});

check("the number of people is there before any heartbeat", async () => {
  const HEARTBEAT = 0x84;
  const page = await open(DESKTOP, "", (p) =>
    p.routeWebSocket(/\/api\/v1\/ws/, (socket) => {
      const node = socket.connectToServer();
      node.onMessage((m) => {
        if (m[0] !== HEARTBEAT) socket.send(m);
      });
    }),
  );
  await page.waitForSelector("#online:not([hidden])", WAIT);
  assert.match(await text(page, "#online-text"), /^\d+$/);
  await page.context().close();
});
