// Invites as people open them, against a real server that takes nobody else (harness.mjs). Run by page_test.go.

import assert from "node:assert/strict";
import { adminApi, check, DESKTOP, faults, live, open, shot, text, WAIT } from "./harness.mjs";

const named = (page, name) => page.waitForFunction((n) => document.getElementById("account").textContent === n, name, WAIT);

check("an invite's link asks for a name once, and greets on every other device", async () => {
  const [invite] = await adminApi("invites", "POST", { count: 1, by: "e2e", why: "test" });
  const hash = new URL(invite.link).hash;
  const first = await open(DESKTOP, "", undefined, hash);
  await first.waitForSelector("#account-dialog[open]", WAIT);
  assert.equal(await text(first, "#account-error"), "", "a new invite is no error");
  await shot(first, "invite-first");
  await first.fill("#name", "Guest3");
  await first.click("#sign-in-submit");
  await named(first, "Guest3");
  const second = await open(DESKTOP, "", undefined, hash);
  await named(second, "Guest3");
  await live(second);
  assert.match(await text(second, "#toasts"), /Welcome, Guest3!/);
  assert.ok(await second.locator("#account-dialog").isHidden(), "nobody asks for a name that does not count");
  await shot(second, "invite-second");
  const third = await open(DESKTOP, "", undefined, `${hash.slice(0, -4)}AAAA`);
  await third.waitForFunction(() => document.getElementById("account-error").textContent !== "", null, WAIT);
  assert.match(await text(third, "#account-error"), /^This invite is not good: ask the host for another one\. It was not made by this board/);
  for (const page of [first, second, third]) await page.context().close();
  const refused = faults.splice(0).filter((f) => !/status of (422|403)/.test(f)); // what the browser says of the two refusals
  assert.deepEqual(refused, []);
});
