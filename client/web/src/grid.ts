// The fixed grid of chunks: the same numbers as board/geometry.go. x and y are tiles, col and row are chunks.

/** The side of a chunk in tiles. */
export const CHUNK_SIZE = 50;
/** The tiles of a chunk. */
export const CHUNK_TILES = CHUNK_SIZE * CHUNK_SIZE;
/** The largest width and height of a board in tiles. */
export const SIDE_MAX = 10_000;
/** Columns and rows of chunks of the largest board. */
export const CHUNKS_SIDE_MAX = SIDE_MAX / CHUNK_SIZE;
/** Boards of more tiles are not sent whole. */
export const WHOLE_BOARD_TILES_MAX = 4_000_000;

export interface Point {
  readonly x: number;
  readonly y: number;
}

/** A rectangle of chunks: column and row of the first, columns and rows. */
export interface ChunkRect {
  readonly col: number;
  readonly row: number;
  readonly cols: number;
  readonly rows: number;
}

/** A chunk's id: row * 256 + column. */
export function chunkID(col: number, row: number): number {
  return (row << 8) | col;
}

export function chunkCol(chunk: number): number {
  return chunk & 0xff;
}

export function chunkRow(chunk: number): number {
  return chunk >> 8;
}

/** A chunk's upper left tile. */
export function tileOrigin(chunk: number): Point {
  return { x: chunkCol(chunk) * CHUNK_SIZE, y: chunkRow(chunk) * CHUNK_SIZE };
}

/** The chunk that holds a tile. */
export function chunkOf(x: number, y: number): number {
  return chunkID(Math.floor(x / CHUNK_SIZE), Math.floor(y / CHUNK_SIZE));
}

/** A tile's index in its chunk, row by row. */
export function tileIndex(x: number, y: number): number {
  return (y % CHUNK_SIZE) * CHUNK_SIZE + (x % CHUNK_SIZE);
}

/** The chunks that meet a board of this size. */
export function boardChunks(width: number, height: number): ChunkRect {
  return { col: 0, row: 0, cols: Math.ceil(width / CHUNK_SIZE), rows: Math.ceil(height / CHUNK_SIZE) };
}

export function rectHas(r: ChunkRect, chunk: number): boolean {
  const col = chunkCol(chunk) - r.col;
  const row = chunkRow(chunk) - r.row;
  return col >= 0 && row >= 0 && col < r.cols && row < r.rows;
}

export function sameRect(a: ChunkRect, b: ChunkRect): boolean {
  return a.col === b.col && a.row === b.row && a.cols === b.cols && a.rows === b.rows;
}

/** The part of a that lies in b; without chunks when they do not meet. */
export function rectWithin(a: ChunkRect, b: ChunkRect): ChunkRect {
  const col = Math.max(a.col, b.col);
  const row = Math.max(a.row, b.row);
  const cols = Math.max(0, Math.min(a.col + a.cols, b.col + b.cols) - col);
  const rows = Math.max(0, Math.min(a.row + a.rows, b.row + b.rows) - row);
  return { col, row, cols, rows };
}

export function* rectChunks(r: ChunkRect): Generator<number> {
  for (let row = r.row; row < r.row + r.rows; row++) {
    for (let col = r.col; col < r.col + r.cols; col++) yield chunkID(col, row);
  }
}
