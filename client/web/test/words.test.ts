import assert from "node:assert/strict";
import { test } from "node:test";
import { Code, sentence } from "../src/refusals.ts";
import type { SessionState } from "../src/session.ts";
import { agoWords, onlineWords, problemWords, refusalWords, stateWords, tileWords, timerWords, titleWords, timerSpoken, userWords, type Standing } from "../src/words.ts";
import { refusals } from "./support.ts";

test("every refusal of the product has its number, name and a sentence here", () => {
  const names = Object.entries(Code).map(([name, code]) => [code, name.replace(/[A-Z]/g, (c) => "_" + c.toLowerCase())]);
  assert.deepEqual(names, refusals().map((r) => [r.code, r.label]));
  for (const r of refusals()) assert.match(sentence(r.code), /^[A-Z].*\.$/);
  assert.equal(sentence(99), "The server refused that.");
});

test("a failed request says the sentence for people first, and only details that tell them more", () => {
  const title = "This invite is not good: ask the host for another one.";
  assert.equal(problemWords({ title, detail: "it is not complete" }), `${title} It is not complete.`);
  assert.equal(problemWords({ title, detail: "anon-" }), title);
  assert.equal(problemWords({ title }), title);
  assert.equal(problemWords({ detail: "no title" }), "No title.");
  assert.equal(problemWords({ title: 7 }), "");
});

test("every state of the connection has its words", () => {
  const words = (s: SessionState, time = "") => stateWords(s, 10_000, time);
  assert.equal(words({ kind: "live" }), "Live");
  assert.equal(words({ kind: "loading" }), "Loading the board…");
  assert.equal(words({ kind: "catchingUp", chunks: 1 }), "Catching up: 1 area");
  assert.equal(words({ kind: "catchingUp", chunks: 3 }), "Catching up: 3 areas");
  assert.equal(words({ kind: "waiting", untilMs: 13_200 }, "12:03"), "Reconnecting in 4 s · board as of 12:03");
  assert.equal(words({ kind: "waiting", untilMs: 9000 }), "Reconnecting in 1 s");
  assert.equal(stateWords({ kind: "waiting", untilMs: 13_200 }, 10_000, "12:03", false), "Offline · board as of 12:03");
  assert.equal(words({ kind: "connecting" }), "Connecting…");
  assert.match(words({ kind: "parked" }, "12:03"), /12:03/);
  assert.match(words({ kind: "stopped" }), /reload/);
});

test("the timer says what stands between the user and the next tile", () => {
  const ready: Standing = { signedIn: true, connected: true, frozen: false, bannedUntilMs: 0, pending: null, armed: false, leftMs: 0 };
  const state = (s: Partial<Standing>) => timerWords({ ...ready, ...s }, 1000).state;
  assert.equal(state({}), "ready");
  assert.equal(state({ leftMs: 1 }), "waiting");
  assert.equal(state({ frozen: true }), "frozen");
  assert.equal(state({ frozen: true, leftMs: 1 }), "waiting");
  assert.equal(state({ signedIn: false }), "signedOut");
  assert.equal(state({ connected: false }), "unknown");
  assert.equal(state({ connected: false, signedIn: false }), "unknown");
  assert.equal(state({ connected: false, leftMs: 1 }), "waiting", "the countdown goes on without the node");
  assert.equal(state({ bannedUntilMs: 999 }), "ready");
  assert.equal(state({ bannedUntilMs: 1001 }), "banned");
  assert.equal(state({ pending: "sent", leftMs: 5 }), "sending");
  assert.equal(timerWords({ ...ready, leftMs: 299_500 }, 0).text, "Next tile in 5:00");
  assert.doesNotMatch(timerWords({ ...ready, bannedUntilMs: 2 ** 53 - 1 }, 0).text, /until/);
  assert.equal(titleWords(timerWords({ ...ready, leftMs: 60_000 }, 0)), "1:00 · placed");
  assert.equal(titleWords(timerWords(ready, 0)), "Ready · placed");
});

test("a screen reader hears of the timer at a minute, at ten seconds and at the end, and nothing else", () => {
  const heard: string[] = [];
  for (let left = 70_000; left >= -250; left -= 250) {
    const words = timerSpoken(left + 250, left);
    if (words !== "") heard.push(words);
  }
  assert.deepEqual(heard, ["60 seconds until your next tile.", "10 seconds until your next tile.", "Your next tile is ready."]);
});

test("who and when, for every kind of placement", () => {
  const t = { placed: true, colour: 1, user: "ann", atMs: 0, kind: "user" };
  assert.equal(tileWords(t, 180_000), "placed by ann, 3 minutes ago");
  assert.equal(tileWords({ ...t, user: "anon-k3f9abcdefgh" }, 1000), "placed by anon k3f9, just now");
  assert.match(tileWords({ ...t, kind: "clear" }, 0), /^cleared by a moderator/);
  assert.match(tileWords({ ...t, kind: "import" }, 0), /imported/);
  assert.match(tileWords({ ...t, placed: false }, 0), /^Nobody/);
  assert.equal(userWords("ann"), "ann");
  assert.equal(agoWords(3 * 3600_000), "3 hours ago");
  assert.equal(agoWords(2 * 86_400_000), "2 days ago");
  assert.equal(agoWords(-5000), "just now");
});

test("refusals before sending and people online", () => {
  assert.equal(refusalWords(Code.cooldown, 61_000), "Your next tile is ready in 1:01.");
  assert.equal(refusalWords(Code.cooldown, 0), sentence(Code.cooldown));
  assert.match(refusalWords("early", 0), /again/);
  assert.match(refusalWords("unsettled", 0), /way/);
  assert.equal(onlineWords(1234), "1,234");
  assert.equal(onlineWords(12_345), "12.3k");
  assert.equal(onlineWords(123_456), "123k");
});
