// Takes the screenshots of README.md: the board on a desktop with the details of a tile, and close up on a phone. Run by
// screenshots_test.go.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

const { PLACED_URL, PLACED_CHROMIUM, PLACED_ARTIFACTS } = process.env;
const WAIT = { timeout: 30_000 };
const DESKTOP = { viewport: { width: 1120, height: 760 } };
const PHONE = { viewport: { width: 390, height: 760 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };

let browser;
before(async () => {
  browser = await chromium.launch({ executablePath: PLACED_CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
});
after(() => browser?.close());

async function open(options, address = "/") {
  const page = await (await browser.newContext(options)).newPage();
  await page.goto(PLACED_URL + address, WAIT);
  await page.waitForSelector('#status[data-state="live"]', WAIT);
  await page.waitForSelector('#timer[data-state="ready"]', WAIT);
  return page;
}

/** Waits until nothing moves and no hint is shown. */
async function still(page) {
  await page.waitForFunction(() => document.getElementById("toasts").children.length === 0, null, WAIT);
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 400))));
}

test("the board on a desktop", async () => {
  const page = await open(DESKTOP, "/#159,105,3");
  await page.mouse.move(843, 361);
  await still(page);
  await page.screenshot({ path: join(PLACED_ARTIFACTS, "board.png") });
});

/** Places one tile as somebody. */
async function placeAs(name, x, y, colour) {
  const { token } = await (await fetch(`${PLACED_URL}/api/login/${name}`, { method: "POST" })).json();
  const res = await fetch(`${PLACED_URL}/api/v1/placements`, {
    method: "POST",
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json", "Idempotency-Key": `${x},${y}` },
    body: JSON.stringify({ x, y, colour }),
  });
  assert.ok(res.ok, `${res.status} ${await res.text()}`);
}

test("close up on a phone, with the details of a tile", async () => {
  await placeAs("ada", 118, 143, 0);
  const page = await open(PHONE, "/#118,146,20");
  await page.touchscreen.tap(200, 325);
  await page.waitForFunction(() => /placed by ada/.test(document.getElementById("tile").textContent), null, WAIT);
  await still(page);
  await page.screenshot({ path: join(PLACED_ARTIFACTS, "phone.png") });
});
