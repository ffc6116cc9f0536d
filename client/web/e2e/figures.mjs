// The page's figures, printed as a table: run by `make web-figures`. Times are processor time of the page's main thread out of
// Chromium's own trace, with its processor slowed down four times, so that what else the machine does counts little.

import { chromium } from "playwright-core";
import { boardBody, FakeNode } from "./node.mjs";
import { open, placeAs, goTo, DESKTOP } from "./harness.mjs";
import { test } from "node:test";

const { PLACED_URL, PLACED_CHROMIUM } = process.env;
const RATE = 5000; // placements a second
const THROTTLE = 4;
const SECONDS = 5;
const PHONE = { viewport: { width: 412, height: 915 }, deviceScaleFactor: 1, isMobile: true, hasTouch: true };
const say = (...cells) => console.log(`FIGURE | ${cells.join(" | ")} |`);
const percentile = (list, p) => (list.length === 0 ? 0 : [...list].sort((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * p))]);
const wait = (page, ms) => page.evaluate((t) => new Promise((resolve) => setTimeout(resolve, t)), ms);

/** Traces what a page does meanwhile and returns the processor time of JavaScript per frame, and of the longest task with any. */
async function traced(browser, page, doing) {
  const cdp = await browser.newBrowserCDPSession();
  const events = [];
  cdp.on("Tracing.dataCollected", ({ value }) => events.push(...value));
  const complete = new Promise((resolve) => cdp.once("Tracing.tracingComplete", resolve));
  await cdp.send("Tracing.start", { transferMode: "ReportEvents", traceConfig: { includedCategories: ["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"] } });
  await doing();
  await cdp.send("Tracing.end");
  await complete;
  await cdp.detach();
  const frames = new Map();
  for (const e of events) if (e.name === "FireAnimationFrame") frames.set(`${e.pid} ${e.tid}`, (frames.get(`${e.pid} ${e.tid}`) ?? 0) + 1);
  const main = [...frames].sort((a, b) => b[1] - a[1])[0]?.[0] ?? "nobody drew"; // nothing runs when nothing moves
  const own = events.filter((e) => `${e.pid} ${e.tid}` === main && e.ph === "X").sort((a, b) => a.ts - b.ts);
  const calls = outermost(own.filter((e) => e.name === "FunctionCall"));
  const tasks = outermost(own.filter((e) => /RunTask/.test(e.name))).filter((t) => calls.some((c) => c.ts >= t.ts && c.ts <= t.ts + t.dur));
  const starts = own.filter((e) => e.name === "FireAnimationFrame").map((e) => e.ts).filter((ts, i, all) => i === 0 || ts - all[i - 1] > 2000);
  const perFrame = starts.map((ts, i) => calls.filter((c) => c.ts >= ts && c.ts < (starts[i + 1] ?? Infinity)).reduce((sum, c) => sum + (c.tdur ?? 0), 0) / 1000);
  return { perFrame, longest: Math.max(0, ...tasks.map((t) => (t.tdur ?? 0) / 1000)) };
}

function outermost(events) {
  const out = [];
  for (const e of events) if (out.length === 0 || e.ts >= out.at(-1).ts + out.at(-1).dur) out.push(e);
  return out;
}

async function measured(browser, side, hash, pans) {
  const context = await browser.newContext(PHONE);
  const page = await context.newPage();
  const node = new FakeNode(side, side);
  const body = boardBody(1000, 1000);
  await page.addInitScript(() => {
    const read = Response.prototype.arrayBuffer;
    Response.prototype.arrayBuffer = async function () {
      const bytes = await read.call(this);
      window.bytesMs_ = performance.now();
      const look = () => (document.getElementById("status").dataset.state === "live" ? requestAnimationFrame(() => (window.paintMs_ = performance.now())) : requestAnimationFrame(look));
      requestAnimationFrame(look);
      return bytes;
    };
  });
  await page.routeWebSocket(/\/api\/v1\/ws/, (socket) => node.attach(socket));
  await page.route(/\/api\/v1\/board$/, (route) => route.fulfill({ body, contentType: "application/octet-stream" }));
  const cdp = await context.newCDPSession(page);
  await page.goto(`${PLACED_URL}/${hash}`);
  await page.waitForSelector('#status[data-state="live"]');
  await wait(page, 2500);
  await cdp.send("HeapProfiler.collectGarbage");
  const { usedSize, backingStorageSize = 0 } = await cdp.send("Runtime.getHeapUsage");
  const paint = await page.evaluate(() => window.paintMs_ - window.bytesMs_);
  await cdp.send("Emulation.setCPUThrottlingRate", { rate: THROTTLE });
  node.rate = RATE;
  const touch = (type, ...points) => cdp.send("Input.dispatchTouchEvent", { type, touchPoints: points.map(([x, y], id) => ({ x, y, id })) });
  const result = await traced(browser, page, async () => {
    const end = Date.now() + SECONDS * 1000;
    if (!pans) return wait(page, SECONDS * 1000);
    while (Date.now() < end) {
      await touch("touchStart", [300, 500]);
      for (let i = 1; i <= 20; i++) {
        await touch("touchMove", [300 - 9 * i, 500 - 6 * i]);
        await wait(page, 16);
      }
      await touch("touchEnd");
    }
  });
  node.stop();
  await context.close();
  return { ...result, heapMB: (usedSize + backingStorageSize) / 1e6, paint };
}

/** An empty page that asks for every frame, in the same browser. */
async function empty(browser) {
  const context = await browser.newContext(PHONE);
  const page = await context.newPage();
  await page.goto("about:blank");
  const cdp = await context.newCDPSession(page);
  await cdp.send("Emulation.setCPUThrottlingRate", { rate: THROTTLE });
  const result = await traced(browser, page, () => page.evaluate((ms) => new Promise((resolve) => {
    const end = performance.now() + ms;
    const frame = () => (performance.now() < end ? requestAnimationFrame(frame) : resolve());
    requestAnimationFrame(frame);
  }), SECONDS * 1000));
  await context.close();
  return result;
}

test("figures", { timeout: 170_000 }, async () => {
  const browser = await chromium.launch({ executablePath: PLACED_CHROMIUM, args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"] });
  say("page", "frames", "JS per frame, median", "p95", "longest task", "heap", "body to paint");
  say("---", "---", "---", "---", "---", "---", "---");
  const ms = (v) => `${v.toFixed(1)} ms`;
  const none = await empty(browser);
  say("empty page", none.perFrame.length, ms(percentile(none.perFrame, 0.5)), ms(percentile(none.perFrame, 0.95)), ms(none.longest), "", "");
  for (const [what, side, hash, pans] of [
    ["1000x1000, whole", 1000, "", false], ["1000x1000, 8x", 1000, "#500,500,8", false], ["1000x1000, 8x, panning", 1000, "#500,500,8", true],
    ["1000x1000, 1x, panning", 1000, "#500,500,1", true], ["10,000x10,000, 1x", 10_000, "#5000,5000,1", false],
    ["10,000x10,000, 8x, panning", 10_000, "#5000,5000,8", true], ["10,000x10,000, 0.1x", 10_000, "#5000,5000,0.1", false],
  ]) {
    const r = await measured(browser, side, hash, pans);
    const paint = Number.isFinite(r.paint) ? ms(r.paint) : "";
    say(what, r.perFrame.length, ms(percentile(r.perFrame, 0.5)), ms(percentile(r.perFrame, 0.95)), ms(r.longest), `${r.heapMB.toFixed(1)} MB`, paint);
  }
  await browser.close();
  const page = await open(DESKTOP, "");
  await goTo(page, 500, 500);
  const waits = [];
  for (let i = 0; i < 12; i++) {
    const painted = page.evaluate((old) => new Promise((resolve) => {
      const board = document.getElementById("board");
      const look = () => {
        const now = board.getContext("2d").getImageData(board.width / 2, board.height / 2, 1, 1).data.join();
        if (now !== old.value && old.value !== undefined) return resolve(Date.now());
        old.value ??= now;
        requestAnimationFrame(look);
      };
      look();
    }), {});
    await wait(page, 60);
    await placeAs(`figure${i}`, 500, 500, 1 + (i % 2));
    const acknowledged = Date.now();
    waits.push((await painted) - acknowledged);
  }
  say("acknowledgement to another page's paint", waits.length, ms(percentile(waits, 0.5)), ms(percentile(waits, 0.95)), "", "", "");
});
