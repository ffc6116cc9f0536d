// Where people paint: a grid of cells whose heat rises with each placement that arrives live and fades by half in a while. It
// feeds the heat map and the camera that follows the action. Pure arithmetic; nothing here draws.

import { CHUNK_SIZE, chunkCol, chunkRow } from "./grid.ts";

/** The side of a cell in tiles: a divisor of a chunk's. */
export const HEAT_CELL = 10;
const CELLS_CHUNK = CHUNK_SIZE / HEAT_CELL;
/** Heat falls to half in this time. */
const HALF_MS = 15_000;
const GONE = 0.02;

interface Cell {
  heat: number; // at the time ms
  ms: number;
}

export class Heat {
  readonly #cells = new Map<number, Cell>(); // by row * 1000 + column of cells

  /** Notes tiles of a chunk that were placed just now. */
  add(chunk: number, tiles: readonly number[], nowMs: number): void {
    const col = chunkCol(chunk) * CELLS_CHUNK;
    const row = chunkRow(chunk) * CELLS_CHUNK;
    for (const i of tiles) {
      const c = col + Math.floor((i % CHUNK_SIZE) / HEAT_CELL);
      const r = row + Math.floor(i / CHUNK_SIZE / HEAT_CELL);
      const id = r * 1000 + c;
      const cell = this.#cells.get(id);
      if (cell === undefined) {
        this.#cells.set(id, { heat: 1, ms: nowMs });
      } else {
        cell.heat = faded(cell, nowMs) + 1;
        cell.ms = nowMs;
      }
    }
  }

  clear(): void {
    this.#cells.clear();
  }

  /** Calls fn with every cell that is still warm; cold ones are forgotten. */
  each(nowMs: number, fn: (col: number, row: number, heat: number) => void): void {
    for (const [id, cell] of this.#cells) {
      const heat = faded(cell, nowMs);
      if (heat < GONE) this.#cells.delete(id);
      else fn(id % 1000, Math.floor(id / 1000), heat);
    }
  }

  /** The middle of the hottest cells: a tile, or null when nothing happens. The farther from `from`, the less it counts. */
  hottest(from: { readonly x: number; readonly y: number }, nowMs: number): { x: number; y: number } | null {
    let best: { x: number; y: number } | null = null;
    let most = 0;
    this.each(nowMs, (col, row, heat) => {
      const x = (col + 0.5) * HEAT_CELL;
      const y = (row + 0.5) * HEAT_CELL;
      const worth = heat / (1 + Math.hypot(x - from.x, y - from.y) / 500);
      if (worth <= most) return;
      most = worth;
      best = { x, y };
    });
    return best;
  }
}

function faded(cell: Cell, nowMs: number): number {
  return cell.heat * 2 ** (-(nowMs - cell.ms) / HALF_MS);
}
