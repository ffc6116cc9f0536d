// What the page says, apart from where it says it: pure functions, so that every state can be tested to have its words.

import type { TileDetails } from "./api.ts";
import { clockText } from "./cooldown.ts";
import { Code, sentence } from "./refusals.ts";
import type { SessionState } from "./session.ts";

/** The connection in words. boardTime: the time of day of the board on show when it is not live, "" when there is none. */
export function stateWords(s: SessionState, nowMs: number, boardTime: string): string {
  const old = boardTime === "" ? "" : ` · board as of ${boardTime}`;
  switch (s.kind) {
    case "connecting":
      return `Connecting…${old}`;
    case "loading":
      return "Loading the board…";
    case "catchingUp":
      return `Catching up: ${s.chunks} ${s.chunks === 1 ? "area" : "areas"}`;
    case "live":
      return "Live";
    case "waiting":
      return `Reconnecting in ${Math.max(1, Math.ceil((s.untilMs - nowMs) / 1000))} s${old}`;
    case "parked":
      return `Paused${old}`;
    case "stopped":
      return "This page is out of date: please reload it";
  }
}

/** What a placement that was not even sent, or was refused, says. */
export function refusalWords(code: number | "early" | "unsettled", leftMs: number): string {
  if (code === "early") return "Not connected yet: try again in a moment.";
  if (code === "unsettled") return "Your last tile is still on its way.";
  if (code === Code.cooldown && leftMs > 0) return `Your next tile is ready in ${clockText(leftMs)}.`;
  return sentence(code);
}

export interface Standing {
  readonly signedIn: boolean;
  readonly connected: boolean; // and the node has said where this user stands
  readonly frozen: boolean;
  readonly bannedUntilMs: number; // Unix milliseconds
  readonly pending: "sent" | "charged" | null;
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
  if (s.pending === "sent") return { state: "sending", text: "Placing…", clock };
  if (s.pending === "charged") return { state: "sending", text: "Saved, on its way…", clock };
  if (!s.connected && s.leftMs === 0) return { state: "unknown", text: "Not connected", clock };
  if (!s.signedIn) return { state: "signedOut", text: "Sign in to place tiles", clock: "" };
  if (s.bannedUntilMs > wallMs) {
    const until = s.bannedUntilMs >= BAN_WITHOUT_END_MS ? "" : ` until ${new Date(s.bannedUntilMs).toLocaleString()}`;
    return { state: "banned", text: `You may not place tiles${until}`, clock };
  }
  if (s.leftMs > 0) return { state: "waiting", text: `Next tile in ${clock}`, clock };
  if (s.frozen) return { state: "frozen", text: "Frozen", clock };
  return { state: "ready", text: "Ready to place", clock };
}

/** "3 minutes ago". */
export function agoWords(ms: number): string {
  const s = Math.max(0, ms / 1000);
  const format = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
  if (s < 45) return "just now";
  if (s < 45 * 60) return format.format(-Math.round(s / 60), "minute");
  if (s < 22 * 3600) return format.format(-Math.round(s / 3600), "hour");
  return format.format(-Math.round(s / 86400), "day");
}

/** How names of users without a chosen name begin. */
const ANONYMOUS = "anon-";

/** A user's name as it is shown: of one without a chosen name a short part that tells it from others. */
export function userWords(user: string): string {
  return user.startsWith(ANONYMOUS) ? `anon ${user.slice(ANONYMOUS.length, ANONYMOUS.length + 4)}` : user;
}

/** Whether the user has chosen a name. */
export function isNamed(user: string): boolean {
  return user !== "" && !user.startsWith(ANONYMOUS);
}

/** Who placed a tile and when. */
export function tileWords(t: TileDetails, wallMs: number): string {
  if (!t.placed) return "Nobody has placed a tile here yet.";
  const ago = agoWords(wallMs - t.atMs);
  switch (t.kind) {
    case "user":
      return `placed by ${userWords(t.user)}, ${ago}`;
    case "clear":
      return `cleared by a moderator, ${ago}`;
    case "rollback":
      return `put back by a moderator, ${ago}`;
    default:
      return `from ${t.kind === "import" ? "an imported board" : "a restored board"}, ${ago}`;
  }
}

/** The title of the tab. */
export function titleWords(t: TimerWords): string {
  if (t.state === "waiting") return `${t.clock} · placed`;
  if (t.state === "ready") return "Ready · placed";
  return "placed";
}

/** "1,234 online". */
export function onlineWords(people: number): string {
  return people < 10_000 ? people.toLocaleString("en") : `${(people / 1000).toFixed(people < 100_000 ? 1 : 0)}k`;
}
