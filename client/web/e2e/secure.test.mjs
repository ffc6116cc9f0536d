// The page over TLS, in a real browser against a real server: it goes live over wss, its cookie never goes out without TLS, and
// somebody signs in under a name. Run by secure_test.go.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

const { PLACED_URL, PLACED_CHROMIUM } = process.env;
const WAIT = { timeout: 15_000 };
let browser;

before(async () => {
  browser = await chromium.launch({
    executablePath: PLACED_CHROMIUM,
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
  });
});
after(() => browser?.close());

test("the page over TLS", async () => {
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  const page = await context.newPage();
  const faults = [];
  const sockets = [];
  page.on("pageerror", (e) => faults.push(String(e)));
  page.on("websocket", (ws) => sockets.push(ws.url()));
  page.on("request", (r) => {
    if (!r.url().startsWith(PLACED_URL) && !/^(data|blob):/.test(r.url())) faults.push(`asked ${r.url()}`);
  });
  await page.goto(PLACED_URL + "/", WAIT);
  const live = () => page.waitForSelector('#status[data-state="live"]', WAIT);
  await live();
  assert.equal(await page.evaluate(() => window.isSecureContext), true);
  const expected = PLACED_URL.replace("https:", "wss:") + "/api/v1/ws";
  assert.deepEqual([...new Set(sockets)], [expected]);
  const cookie = (await context.cookies()).find((c) => c.name === "placed_session");
  assert.ok(cookie?.secure && cookie.httpOnly && cookie.sameSite === "Lax", JSON.stringify(cookie));

  await page.click("#account");
  await page.fill("#name", "ada");
  await page.click("#account-dialog .primary");
  await page.waitForFunction(() => document.getElementById("account").textContent === "ada", undefined, WAIT);
  await live();
  const me = await page.evaluate(async () => (await fetch("api/v1/me")).json());
  assert.equal(me.user, "ada");
  const placed = await page.evaluate(async () => {
    const r = await fetch("api/v1/placements", {
      method: "POST",
      headers: { "Content-Type": "application/json", "Idempotency-Key": "tls" },
      body: JSON.stringify({ x: 1, y: 2, colour: 5 }),
    });
    return r.status;
  });
  assert.ok(placed === 200 || placed === 202, `a placement: ${placed}`);
  assert.deepEqual(faults, []);
});
