// The part of the page's address after '#': where somebody looks, so that a link shows the same spot. "#x,y" or "#x,y,zoom", and
// "#x=1&y=2" as the boards of 2017 had it. What follows an ampersand belongs to others (the template).

import type { View } from "./camera.ts";

/** The zoom of a link that names none. */
const ZOOM_LINKED = 24;

/** The view that a hash names, at the middle of its tile; null when it names none. */
export function parseHash(hash: string): View | null {
  const text = hash.replace(/^#/, "");
  const short = /^(\d{1,5}),(\d{1,5})(?:,(\d{1,3}(?:\.\d{1,4})?))?(?:&|$)/.exec(text);
  if (short !== null) return view(short[1]!, short[2]!, short[3]);
  const long = new URLSearchParams(text);
  const [x, y] = [long.get("x"), long.get("y")];
  if (x === null || y === null || !/^\d{1,5}$/.test(x) || !/^\d{1,5}$/.test(y)) return null;
  return view(x, y, undefined);
}

function view(x: string, y: string, zoom: string | undefined): View {
  return { x: Number(x) + 0.5, y: Number(y) + 0.5, zoom: zoom === undefined ? ZOOM_LINKED : Math.max(0.01, Number(zoom)) };
}

/** The hash of a view, with what follows it; keeps others' part of the hash. */
export function formatHash(v: View, rest = ""): string {
  const zoom = v.zoom >= 10 ? v.zoom.toFixed(0) : String(Number(v.zoom.toFixed(2)));
  return `#${Math.floor(v.x)},${Math.floor(v.y)},${zoom}${rest}`;
}

/** What stands behind the view in a hash, ampersand included. */
export function restOfHash(hash: string): string {
  const at = hash.indexOf("&");
  return at < 0 || parseHash(hash.slice(0, at)) === null ? "" : hash.slice(at);
}

/** A tile to begin at on a board too large to be seen whole: anywhere, but away from the edges where there is room. */
export function randomTile(width: number, height: number, random: () => number): { x: number; y: number } {
  const within = (side: number) => {
    const edge = Math.min(100, Math.floor(side / 4));
    return edge + Math.floor(random() * (side - 2 * edge));
  };
  return { x: within(width), y: within(height) };
}

/** "12, 34" or "#12,34" or "(12 34)" as somebody writes it; null when it is no tile of the board. */
export function parseTile(text: string, width: number, height: number): { x: number; y: number } | null {
  const m = /^[#(\s]*(\d{1,5})[\s,;x/]+(\d{1,5})[)\s]*$/i.exec(text);
  if (m === null) return null;
  const [x, y] = [Number(m[1]), Number(m[2])];
  return x < width && y < height ? { x, y } : null;
}
