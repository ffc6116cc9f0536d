// What the page says, apart from where it says it: pure functions of what is the case and of the language (i18n.ts), so that
// every state can be tested to have its words.

import type { TileDetails } from "./api.ts";
import { clockText } from "./cooldown.ts";
import { spoken, t } from "./i18n.ts";
import { Code, sentence } from "./refusals.ts";
import type { SessionState } from "./session.ts";

/**
 * The connection in words. boardTime: the time of day of the board on show when it is not live, "" when there is none; onLine:
 * what the browser believes of its network.
 */
export function stateWords(s: SessionState, nowMs: number, boardTime: string, onLine = true): string {
  const old = (state: string) => (boardTime === "" ? state : t("status.asOf", { state, time: boardTime }));
  switch (s.kind) {
    case "connecting":
      return old(t("status.connecting"));
    case "loading":
      return t("status.loading");
    case "catchingUp":
      return t("status.catchingUp", { n: s.chunks });
    case "live":
      return t("status.live");
    case "waiting":
      if (!onLine) return old(t("status.offline"));
      return old(t("status.waiting", { s: Math.max(1, Math.ceil((s.untilMs - nowMs) / 1000)) }));
    case "parked":
      return old(t("status.parked"));
    case "stopped":
      return t("status.stopped");
  }
}

/** What a placement that was not even sent, or was refused, says. */
export function refusalWords(code: number | "early" | "unsettled", leftMs: number): string {
  if (code === "early" || code === "unsettled") return t(`refusal.${code}`);
  if (code === Code.cooldown && leftMs > 0) return t("refusal.wait", { clock: clockText(leftMs) });
  return sentence(code);
}

export interface Standing {
  readonly signedIn: boolean;
  readonly connected: boolean; // and the node has said where this user stands
  readonly frozen: boolean;
  readonly bannedUntilMs: number; // Unix milliseconds
  readonly pending: "sent" | "charged" | null;
  readonly armed: boolean; // a placement waits for the cooldown's end
  readonly leftMs: number;
}

export interface TimerWords {
  readonly state: "unknown" | "signedOut" | "banned" | "frozen" | "sending" | "waiting" | "ready";
  readonly text: string;
  readonly clock: string; // what is left, "" for nothing
}

/** Bans this far ahead have no end. */
const BAN_WITHOUT_END_MS = 2 ** 53 - 1;

/** What the timer shows. wallMs is the time of day. */
export function timerWords(s: Standing, wallMs: number): TimerWords {
  const clock = s.leftMs > 0 ? clockText(s.leftMs) : "";
  if (s.pending === "sent") return { state: "sending", text: t("timer.sent"), clock };
  if (s.pending === "charged") return { state: "sending", text: t("timer.charged"), clock };
  if (!s.connected && s.leftMs === 0) return { state: "unknown", text: t("timer.unknown"), clock };
  if (!s.signedIn) return { state: "signedOut", text: t("timer.signedOut"), clock: "" };
  if (s.bannedUntilMs > wallMs) {
    const endless = s.bannedUntilMs >= BAN_WITHOUT_END_MS;
    const text = endless ? t("timer.banned") : t("timer.bannedUntil", { time: timeWords(s.bannedUntilMs) });
    return { state: "banned", text, clock };
  }
  if (s.leftMs > 0) return { state: "waiting", text: t(s.armed ? "timer.armed" : "timer.waiting", { clock }), clock };
  if (s.frozen) return { state: "frozen", text: t("timer.frozen"), clock };
  return { state: "ready", text: t("timer.ready"), clock };
}

/** Seconds left at which the timer is spoken; it stays silent between them. */
const SPOKEN_S = [60, 10];

/** What a screen reader says when what is left of the cooldown goes from one value to the next; "" for nothing. */
export function timerSpoken(beforeMs: number, leftMs: number): string {
  if (beforeMs > 0 && leftMs <= 0) return t("timer.spokenReady");
  const passed = SPOKEN_S.find((s) => beforeMs > s * 1000 && leftMs <= s * 1000);
  return passed === undefined ? "" : t("timer.spoken", { n: passed });
}

/** A moment as date and time. */
export function timeWords(unixMs: number): string {
  return new Date(unixMs).toLocaleString(spoken());
}

/** "3 minutes ago". */
export function agoWords(ms: number): string {
  const s = Math.max(0, ms / 1000);
  const format = new Intl.RelativeTimeFormat(spoken(), { numeric: "auto" });
  if (s < 45) return t("ago.now");
  if (s < 45 * 60) return format.format(-Math.round(s / 60), "minute");
  if (s < 22 * 3600) return format.format(-Math.round(s / 3600), "hour");
  return format.format(-Math.round(s / 86400), "day");
}

/** How names of users without a chosen name begin. */
const ANONYMOUS = "anon-";

/** A user's name as it is shown: of one without a chosen name a short part that tells it from others. */
export function userWords(user: string): string {
  return user.startsWith(ANONYMOUS) ? t("account.anon", { part: user.slice(ANONYMOUS.length, ANONYMOUS.length + 4) }) : user;
}

/** Whether the user has chosen a name. */
export function isNamed(user: string): boolean {
  return user !== "" && !user.startsWith(ANONYMOUS);
}

/** Who placed a tile and when. */
export function tileWords(d: TileDetails, wallMs: number): string {
  if (!d.placed) return t("tile.nobody");
  const known = ["user", "clear", "rollback", "import"].includes(d.kind) ? d.kind : "restore";
  return t(`tile.${known}`, { user: userWords(d.user), ago: agoWords(wallMs - d.atMs) });
}

/** What a failed request's body may say (RFC 9457). */
export interface ProblemDocument {
  readonly title?: unknown; // a sentence for people
  readonly detail?: unknown;
  readonly code?: unknown;
}

/** What a failed request says to a person: the title, then the detail where it is more than a word of programs; "" for nothing. */
export function problemWords({ title, detail }: ProblemDocument): string {
  const said = [title, detail].filter((s): s is string => typeof s === "string" && s !== "");
  if (typeof detail === "string" && said.length === 2 && !detail.trim().includes(" ")) said.pop();
  return said.map((s) => s[0]!.toUpperCase() + s.slice(1)).map((s) => (/[.!?:]$/.test(s) ? s : `${s}.`)).join(" ");
}

/** The title of the tab. */
export function titleWords(w: TimerWords): string {
  if (w.state === "waiting") return t("title.waiting", { clock: w.clock });
  if (w.state === "ready") return t("title.ready");
  return t("app.title");
}

/** "1,234", or "12.3k" from ten thousand on. */
export function onlineWords(people: number): string {
  if (people < 10_000) return people.toLocaleString(spoken());
  const digits = people < 100_000 ? 1 : 0;
  return (people / 1000).toLocaleString(spoken(), { minimumFractionDigits: digits, maximumFractionDigits: digits }) + "k";
}
