// What the tests of the page share: a browser whose pages are watched for faults, and hands. Run by page_test.go, which says in
// the environment where things are. Every wait is for a condition and has a bound; a page that logs an error, breaks its
// Content-Security-Policy or asks another host fails the test that it happens in.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

const { PLACED_URL, PLACED_ADMIN_URL, PLACED_ADMIN_TOKEN, PLACED_CONTROL_URL, PLACED_CHROMIUM, PLACED_ARTIFACTS } = process.env;
export const COOLDOWN_MS = Number(process.env.PLACED_COOLDOWN_MS);
export const WAIT = { timeout: 15_000 };
export const DESKTOP = { viewport: { width: 1280, height: 800 } };
export const PHONE = { viewport: { width: 412, height: 915 }, deviceScaleFactor: 2.625, isMobile: true, hasTouch: true };
export const RED = "229,0,0";
export const BLUE = "0,0,234";
export const WHITE = "255,255,255";

let browser;
export const faults = [];
/** What the tests tell the harness: while the server is away, a refused connection is no fault. */
export const world = { serverAway: false, pages: {} };

before(async () => {
  browser = await chromium.launch({
    executablePath: PLACED_CHROMIUM,
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
  });
});
after(() => browser?.close());

/** Opens the page as somebody new; name "" stays anonymous. Waits until it is live. */
export async function open(options, name, prepare, hash = "") {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.on("console", (m) => {
    if (m.type() !== "error" && m.type() !== "warning") return;
    if (world.serverAway && /WebSocket|ERR_CONNECTION/.test(m.text())) return;
    if (/willReadFrequently/.test(m.text())) return; // the tests read the canvas, the page never does
    faults.push(m.text());
  });
  page.on("pageerror", (e) => faults.push(String(e)));
  page.on("request", (r) => {
    if (!r.url().startsWith(PLACED_URL) && !/^(data|blob):/.test(r.url())) faults.push(`asked ${r.url()}`);
  });
  await page.addInitScript(() => {
    // Counts animation frames, and writes down every number of pending placements that the board shows.
    const ask = window.requestAnimationFrame.bind(window);
    window.frames_ = 0;
    window.requestAnimationFrame = (fn) => (window.frames_++, ask(fn));
    window.pending_ = [];
    document.addEventListener("DOMContentLoaded", () => {
      const board = document.getElementById("board");
      new MutationObserver(() => window.pending_.push(board.dataset.pending)).observe(board, { attributeFilter: ["data-pending"] });
    });
    document.addEventListener("securitypolicyviolation", (e) => console.error(`policy: ${e.violatedDirective} ${e.blockedURI}`));
  });
  await prepare?.(page);
  await page.goto(`${PLACED_URL}/${hash}`, WAIT);
  await live(page);
  if (name !== "") await signIn(page, name);
  return page;
}

export const live = (page, wait = WAIT) => page.waitForSelector('#status[data-state="live"]', wait);
export const ready = (page) => page.waitForSelector('#timer[data-state="ready"]', WAIT);
export const text = (page, selector) => page.locator(selector).innerText();

export async function signIn(page, name) {
  await page.click("#account");
  await page.fill("#name", name);
  await page.click("#sign-in-submit");
  await page.waitForFunction((n) => document.getElementById("account").textContent === n, name, WAIT);
  await live(page);
  await ready(page);
}

/** The colour that the canvas shows at a point of the viewport. */
export function pixel(page, x, y) {
  return page.evaluate(([px, py]) => {
    const board = document.getElementById("board");
    const ratio = board.width / board.clientWidth;
    return [...board.getContext("2d").getImageData(Math.floor(px * ratio), Math.floor(py * ratio), 1, 1).data].slice(0, 3).join();
  }, [x, y]);
}

/** Waits until the canvas shows a colour at a point, or a few px beside it where the grid's line runs through the point. */
export async function waitPixel(page, x, y, colour) {
  await page.waitForFunction(
    ([px, py, want]) => {
      const board = document.getElementById("board");
      const ratio = board.width / board.clientWidth;
      const context = board.getContext("2d");
      return [[0, 0], [5, 5], [-5, -5], [5, -5], [-5, 5]].some(([dx, dy]) => {
        const data = context.getImageData(Math.floor((px + dx) * ratio), Math.floor((py + dy) * ratio), 1, 1).data;
        return [...data].slice(0, 3).join() === want;
      });
    },
    [x, y, colour],
    WAIT,
  );
}

/** The tile that the coordinates name. */
export async function coords(page) {
  const m = /\((\d+), (\d+)\)/.exec(await text(page, "#coords"));
  return m === null ? null : { x: Number(m[1]), y: Number(m[2]) };
}

export async function zoomOf(page) {
  return Number(/([\d.]+)×/.exec(await text(page, "#coords"))[1]);
}

/** Waits until the view has stopped moving. */
export async function still(page) {
  await page.waitForFunction(
    async () => {
      const before = window.frames_;
      await new Promise((resolve) => setTimeout(resolve, 120));
      return window.frames_ === before;
    },
    null,
    WAIT,
  );
}

/** Waits until every device pixel of the viewport is drawn: the browser tells a canvas's size when it shows a frame. */
export async function drawn(page) {
  const size = () => {
    const { width, height } = document.getElementById("board");
    return { canvas: [width, height], want: [innerWidth * devicePixelRatio, innerHeight * devicePixelRatio] };
  };
  const fits = `(({ canvas, want }) => canvas.every((v, i) => Math.abs(v - want[i]) <= 1))((${size})())`;
  await page.waitForFunction(fits, null, WAIT).catch(async (err) => {
    throw new Error(`not every device pixel is drawn: ${JSON.stringify(await page.evaluate(size))}`, { cause: err });
  });
}

/** Taps until a condition of the page holds: on a machine that is busy a tap may last too long to be one. */
export async function tapUntil(page, x, y, condition) {
  for (let i = 0; ; i++) {
    await page.touchscreen.tap(x, y);
    try {
      return await page.waitForFunction(condition, null, { timeout: 2500 });
    } catch (err) {
      if (i === 4) throw err;
    }
  }
}

/** Goes close enough to a point of the viewport to hit single tiles there. */
export async function goClose(page, x, y, touch = false) {
  const close = () => parseFloat(/([\d.]+)×/.exec(document.getElementById("coords").textContent)[1]) >= 20;
  if (touch) {
    await tapUntil(page, x, y, close);
  } else {
    await page.mouse.click(x, y);
    await page.waitForFunction(close, null, WAIT);
  }
  await still(page);
}

export async function api(path, init = {}) {
  const r = await fetch(PLACED_URL + path, init);
  assert.ok(r.ok, `${path}: ${r.status}`);
  return r.status === 204 ? null : r.json();
}

/** Places a tile over HTTP as somebody. */
export async function placeAs(name, x, y, colour) {
  const { token } = await api(`/api/login/${name}`, { method: "POST" });
  return api("/api/v1/placements", {
    method: "POST",
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json", "Idempotency-Key": randomBytes(8).toString("hex") },
    body: JSON.stringify({ x, y, colour }),
  });
}

/** Asks the operators' listener. */
export async function adminApi(path, method, body) {
  const headers = { Authorization: `Bearer ${PLACED_ADMIN_TOKEN}`, "Content-Type": "application/json" };
  const r = await fetch(`${PLACED_ADMIN_URL}/admin/v1/${path}`, { method, headers, body: JSON.stringify(body) });
  const answer = await r.text();
  assert.ok(r.ok, answer);
  return JSON.parse(answer);
}

/** Changes the board's settings as an operator. */
export async function settings(patch) {
  const headers = { Authorization: `Bearer ${PLACED_ADMIN_TOKEN}`, "Content-Type": "application/json" };
  const now = await (await fetch(`${PLACED_ADMIN_URL}/admin/v1/settings`, { headers })).json();
  const body = JSON.stringify({ base: now.version, patch, by: "e2e", why: "test" });
  const r = await fetch(`${PLACED_ADMIN_URL}/admin/v1/settings`, { method: "PUT", headers, body });
  assert.ok(r.ok, await r.text());
}

export const control = async (what) => assert.ok((await fetch(`${PLACED_CONTROL_URL}/${what}`, { method: "POST" })).ok, what);
export const shot = (page, name) => page.screenshot({ path: join(PLACED_ARTIFACTS, `${name}.png`) });

/** Fails when anything around the board lies under something else or outside the viewport, or a banner's close button cannot be hit. */
export async function apart(page, what) {
  const wrong = await page.evaluate(() => {
    const seen = [...document.querySelectorAll(".top > :not(.gap), .banner, .zoom, .minimap, .dock > *")].filter((e) => e.getClientRects().length > 0);
    const boxes = seen.map((e) => ({ name: e.id || e.className, ...e.getBoundingClientRect().toJSON() })).filter((b) => b.width > 0 && b.height > 0);
    const faults = boxes.filter((b) => b.left < 0 || b.top < 0 || b.right > innerWidth || b.bottom > innerHeight).map((b) => `${b.name} lies outside`);
    for (const [i, a] of boxes.entries()) {
      for (const b of boxes.slice(i + 1)) {
        if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom) faults.push(`${a.name} and ${b.name} overlap`);
      }
    }
    for (const e of document.querySelectorAll("#announcement-close, #menu-open, #account")) {
      const { left, top, width, height } = e.getBoundingClientRect();
      if (width > 0 && !e.contains(document.elementFromPoint(left + width / 2, top + height / 2))) faults.push(`${e.id} is covered`);
      if (height > 60) faults.push(`${e.id} is ${height} px tall`);
    }
    return faults;
  });
  assert.deepEqual(wrong, [], what);
}

/** A test that also fails on anything the pages complained of. */
let checks = 0;
export function check(name, fn) {
  const number = ++checks;
  test(name, { timeout: 100_000 }, async () => {
    faults.length = 0;
    try {
      await fn();
    } catch (err) {
      for (const [what, page] of Object.entries(world.pages)) await page.screenshot({ path: join(PLACED_ARTIFACTS, `failed-${number}-${what}.png`) });
      throw err;
    }
    assert.deepEqual(faults, []);
  });
}

/** Brings a tile to the middle of the viewport by a link. */
export async function goTo(page, x, y, zoom = 24) {
  await page.evaluate((hash) => (location.hash = "", location.hash = hash), `#${x},${y},${zoom}`);
  await page.waitForFunction((z) => document.getElementById("coords").textContent.endsWith(` ${z}×`), zoom, WAIT).catch(async (err) => {
    throw new Error(`not there: ${JSON.stringify(await page.evaluate(() => [location.hash, document.getElementById("coords").textContent, document.hidden]))}`, { cause: err });
  });
  await still(page);
}
