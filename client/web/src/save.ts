// The board as a PNG of one pixel per tile, made from what this page holds.

import type { Board } from "./board.ts";
import type { Settings } from "./settings.ts";

/** Rows painted between two looks at the clock of the browser, so that a large board does not stop the page. */
const ROWS = 100;

export async function saveBoard(board: Board, s: Settings, words: readonly number[], name: string): Promise<void> {
  const canvas = document.createElement("canvas");
  canvas.width = s.width;
  canvas.height = s.height;
  const ctx = canvas.getContext("2d");
  if (ctx === null) throw new Error("no canvas");
  for (let top = 0; top < s.height; top += ROWS) {
    const rows = Math.min(ROWS, s.height - top);
    const image = ctx.createImageData(s.width, rows);
    const pixels = new Uint32Array(image.data.buffer);
    for (let y = 0, i = 0; y < rows; y++) for (let x = 0; x < s.width; x++, i++) pixels[i] = words[board.colourAt(x, top + y)] ?? 0;
    ctx.putImageData(image, 0, top);
    await new Promise((resolve) => setTimeout(resolve, 0));
  }
  const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, "image/png"));
  canvas.width = canvas.height = 0;
  if (blob === null) throw new Error("no picture");
  download(URL.createObjectURL(blob), name, true);
}

/** Has the browser save what an address of this server, or a blob, holds. */
export function download(href: string, name: string, revoke = false): void {
  const a = document.createElement("a");
  a.href = href;
  a.download = name;
  a.click();
  if (revoke) setTimeout(() => URL.revokeObjectURL(href), 60_000);
}
