// The page's requests over HTTP, all relative to where the page was served from, so that a path prefix needs no setting.

import { t } from "./i18n.ts";
import { decodeBoard, type BoardBody } from "./wire.ts";
import { problemWords, type ProblemDocument } from "./words.ts";

/** Who placed a tile, and when. */
export interface TileDetails {
  readonly placed: boolean; // false: nobody has
  readonly colour: number;
  readonly user: string;
  readonly atMs: number;
  readonly kind: string; // user, clear, rollback, restore, import
}

function url(path: string): URL {
  return new URL(`api/v1/${path}`, document.baseURI);
}

/** The address of the websocket. */
export function socketURL(): URL {
  const u = url("ws");
  u.protocol = u.protocol === "https:" ? "wss:" : "ws:";
  return u;
}

/** A request that the server refused; the message is for people, the code ("" for none) for the page. */
export class Refused extends Error {
  readonly code: string;

  constructor(message: string, code: string) {
    super(message);
    this.code = code;
  }
}

async function problem(r: Response): Promise<Refused> {
  let p: ProblemDocument = {};
  try {
    p = ((await r.json()) as ProblemDocument | null) ?? {};
  } catch {
    // no problem document: the status says it
  }
  return new Refused(problemWords(p) || t("error.status", { status: String(r.status) }), typeof p.code === "string" ? p.code : "");
}

export async function fetchBoard(fresh: boolean): Promise<BoardBody> {
  const r = await fetch(url("board"), { cache: fresh ? "reload" : "default" });
  if (!r.ok) throw await problem(r);
  return decodeBoard(new Uint8Array(await r.arrayBuffer()));
}

export async function fetchTile(x: number, y: number): Promise<TileDetails> {
  const r = await fetch(url(`tiles/${x}/${y}`), { cache: "no-store" });
  if (!r.ok) throw await problem(r);
  const t = (await r.json()) as Record<string, unknown>;
  return {
    placed: t["placed"] === true,
    colour: Number(t["colour"] ?? 0),
    user: String(t["user"] ?? ""),
    atMs: Number(t["at_ms"] ?? 0),
    kind: String(t["kind"] ?? "user"),
  };
}

/** Fetches the board in small; what the browser holds is asked for anew. */
export async function fetchOverview(): Promise<ImageBitmap> {
  const r = await fetch(url("overview.png"), { cache: "no-cache" });
  if (!r.ok) throw await problem(r);
  return createImageBitmap(await r.blob());
}

/** The address of the board in small, to be saved. */
export function overviewURL(): string {
  return url("overview.png").href;
}

/** What is the same for everybody and not in the settings. */
export interface Config {
  readonly auth: string; // how people sign in: open, invite, jwt, proxy
  readonly signInURL: string; // where, when that is not here; "" otherwise
  readonly online: number;
}

export async function fetchConfig(): Promise<Config> {
  const r = await fetch(url("config"), { cache: "no-cache" });
  if (!r.ok) throw await problem(r);
  const c = (await r.json()) as Record<string, unknown>;
  const link = String(c["sign_in_url"] ?? "");
  return { auth: String(c["auth"] ?? "open"), signInURL: /^https?:\/\//.test(link) || link.startsWith("/") ? link : "", online: Number(c["online"] ?? 0) };
}

/** One placement of a tile's past. */
export interface PastTile extends TileDetails {
  readonly sequence: number;
}

/** The newest placements of a tile, the newest first. */
export async function fetchTileHistory(x: number, y: number, limit: number): Promise<PastTile[]> {
  const r = await fetch(url(`tiles/${x}/${y}/history?limit=${limit}`), { cache: "no-store" });
  if (!r.ok) throw await problem(r);
  const page = (await r.json()) as { items?: Record<string, unknown>[] };
  return (page.items ?? []).map((t) => ({
    placed: true, colour: Number(t["colour"] ?? 0), user: String(t["user"] ?? ""), atMs: Number(t["at_ms"] ?? 0), kind: String(t["kind"] ?? "user"),
    sequence: Number(t["sequence"] ?? 0),
  }));
}

/** Signs in by an invite (the link, or what stands in it) and returns who that is; the name counts at its first use. */
export async function signInByInvite(invite: string, name: string): Promise<string> {
  const body = JSON.stringify(name === "" ? { invite } : { invite, name });
  const r = await fetch(url("invite"), { method: "POST", headers: { "Content-Type": "application/json" }, body });
  if (!r.ok) throw await problem(r);
  return String(((await r.json()) as { user?: unknown }).user ?? "");
}

/** Signs in with a chosen name; the next connection is that user's. */
export async function signIn(name: string): Promise<void> {
  const r = await fetch(new URL(`api/login/${encodeURIComponent(name)}`, document.baseURI), { method: "POST" });
  if (!r.ok) throw await problem(r);
}

export async function signOut(): Promise<void> {
  const r = await fetch(new URL("api/logout", document.baseURI), { method: "POST" });
  if (!r.ok) throw await problem(r);
}
