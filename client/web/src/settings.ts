// The settings of a board as the node tells them (JSON, see board/settings.go), checked before anything relies on them.

import { SIDE_MAX, WHOLE_BOARD_TILES_MAX } from "./grid.ts";

/** One colour of the palette; its index in the palette is the colour on the wire. */
export interface PaletteEntry {
  readonly name: string;
  readonly rgb: number; // 0xRRGGBB
  readonly closed: boolean; // shown, but no longer placed
}

export interface Settings {
  readonly version: number;
  readonly width: number; // tiles
  readonly height: number; // tiles
  readonly palette: readonly PaletteEntry[];
  readonly cooldownMs: number;
  readonly frozen: boolean;
  readonly announcement: string;
  readonly loading: boolean; // an import or a restore fills the board: no placements yet
}

function whole(v: unknown, least: number, most: number, what: string): number {
  if (typeof v !== "number" || !Number.isInteger(v) || v < least || v > most) throw new Error(`settings: impossible ${what}`);
  return v;
}

function paletteEntry(v: unknown): PaletteEntry {
  const e = v as Record<string, unknown>;
  return { name: String(e["name"] ?? ""), rgb: whole(e["rgb"], 0, 0xffffff, "colour"), closed: e["closed"] === true };
}

/** Reads settings from parsed JSON; throws when they cannot be those of a board. */
export function parseSettings(json: unknown): Settings {
  if (typeof json !== "object" || json === null) throw new Error("settings: not an object");
  const s = json as Record<string, unknown>;
  const palette = s["palette"];
  if (!Array.isArray(palette) || palette.length < 1 || palette.length > 256) throw new Error("settings: impossible palette");
  return {
    version: whole(s["version"], 0, Number.MAX_SAFE_INTEGER, "version"),
    width: whole(s["width"], 1, SIDE_MAX, "width"),
    height: whole(s["height"], 1, SIDE_MAX, "height"),
    palette: palette.map(paletteEntry),
    cooldownMs: whole(s["cooldown_ms"], 0, Number.MAX_SAFE_INTEGER, "cooldown"),
    frozen: s["frozen"] === true,
    announcement: typeof s["announcement"] === "string" ? s["announcement"] : "",
    loading: s["state"] === "loading",
  };
}

/** Whether the board is small enough to be sent whole. */
export function sentWhole(s: Settings): boolean {
  return s.width * s.height <= WHOLE_BOARD_TILES_MAX;
}
