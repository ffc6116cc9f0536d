// The camera: which part of the board the viewport shows. Positions are board coordinates (tiles, fractions included),
// distances on the screen are CSS pixels (px). Zoom is px per tile. At rest a tile covers a whole number of device pixels
// wherever it covers at least one, so that every tile of the board looks the same size.

/** The closest look: px per tile. */
export const ZOOM_MAX = 64;
/** Every board can be looked at from this far, or farther where it does not fit otherwise. */
export const ZOOM_FAR = 0.1;
/** From here on a tile is large enough to be hit with a mouse, and the grid is drawn. */
export const ZOOM_AIM = 8;
/** The zoom that a tap on a distant board goes to. */
export const ZOOM_CLOSE = 24;

/** The part of the free viewport that a board shown whole takes. */
const FIT_SHARE = 0.96;

export interface View {
  readonly x: number; // board coordinates of the middle of the viewport
  readonly y: number;
  readonly zoom: number;
}

interface Flight {
  readonly from: View;
  readonly to: View;
  readonly startMs: number;
  readonly lengthMs: number;
}

export class Camera {
  #view: View = { x: 0, y: 0, zoom: 1 };
  #boardWidth = 1;
  #boardHeight = 1;
  #width = 1; // of the viewport, px
  #height = 1;
  #ratio = 1; // device pixels per px
  #coveredTop = 0; // px of the viewport that lie under panels
  #coveredBottom = 0;
  #fitted = false; // nobody has moved the view since it showed the whole board
  #flight: Flight | null = null;

  get view(): View {
    return this.#view;
  }

  get width(): number {
    return this.#width;
  }

  get height(): number {
    return this.#height;
  }

  /** Device pixels per CSS pixel. */
  get ratio(): number {
    return this.#ratio;
  }

  /** The farthest look: the whole board and a margin. */
  get zoomMin(): number {
    return Math.min(ZOOM_FAR, this.fitZoom * 0.8);
  }

  /** The zoom at which the whole board just fits. */
  get fitZoom(): number {
    const free = Math.max(this.#height / 3, this.#height - this.#coveredTop - this.#coveredBottom);
    return Math.min(ZOOM_MAX, FIT_SHARE * Math.min(this.#width / this.#boardWidth, free / this.#boardHeight));
  }

  /** Whether the whole board is on show because nobody has moved the view since fit. */
  get fitted(): boolean {
    return this.#fitted;
  }

  /**
   * Says how large the viewport is, and how much of it lies under panels above and below (all px). The tile in its middle
   * stays there; a board that was fitted is fitted again.
   */
  setViewport(width: number, height: number, ratio: number, coveredTop = 0, coveredBottom = 0): void {
    this.#width = Math.max(1, width);
    this.#height = Math.max(1, height);
    this.#ratio = ratio;
    this.#coveredTop = coveredTop;
    this.#coveredBottom = coveredBottom;
    this.#set(this.#view);
    if (this.#fitted) this.fit();
  }

  /** Says how large the board is, in tiles; the view stays on the tiles that it showed. */
  setBoard(width: number, height: number): void {
    this.#boardWidth = width;
    this.#boardHeight = height;
    this.#set(this.#view);
  }

  /** Shows the whole board, between the panels. */
  fit(): void {
    this.#flight = null;
    this.#set(this.#fitView());
    this.#fitted = true;
  }

  /** Starts to move to where the whole board shows. */
  flyToFit(nowMs: number, lengthMs: number): void {
    this.flyTo(this.#fitView(), nowMs, lengthMs);
    this.#fitted = true;
  }

  #fitView(): View {
    const zoom = this.crisp(this.fitZoom, Math.floor);
    const y = this.#boardHeight / 2 + (this.#coveredBottom - this.#coveredTop) / 2 / zoom;
    return { x: this.#boardWidth / 2, y, zoom };
  }

  /** Moves the view by px: the board follows a finger that moves by as much. */
  panBy(dx: number, dy: number): void {
    this.#flight = null;
    this.#fitted = false;
    const { x, y, zoom } = this.#view;
    this.#set({ x: x - dx / zoom, y: y - dy / zoom, zoom });
  }

  /** Zooms so that the board's point under (px, py) stays under it. */
  zoomAt(px: number, py: number, zoom: number): void {
    this.#flight = null;
    this.#fitted = false;
    this.#set(this.#anchored(px, py, zoom));
  }

  /** Zooms by about a factor, at least to the next crisp zoom, with (px, py) fixed. */
  zoomStep(px: number, py: number, factor: number): void {
    this.zoomAt(px, py, this.#stepped(this.#view.zoom, factor));
  }

  /** Goes to the nearest crisp zoom, with (px, py) fixed: the end of a pinch. */
  settle(px: number, py: number): void {
    this.zoomAt(px, py, this.crisp(this.#view.zoom, Math.round));
  }

  /** Starts to move to a view within lengthMs; step carries it on. */
  flyTo(view: View, nowMs: number, lengthMs: number): void {
    this.#fitted = false;
    const to = this.#clamped({ ...view, zoom: this.crisp(view.zoom, Math.round) });
    if (lengthMs <= 0) {
      this.#flight = null;
      this.#set(to);
      return;
    }
    this.#flight = { from: this.#view, to, startMs: nowMs, lengthMs };
  }

  /** Starts to move so that a tile shows, away from the edge and from what panels cover; where it does, nothing moves. */
  flyToShow(tile: { readonly x: number; readonly y: number }, zoomLeast: number, nowMs: number, lengthMs: number): void {
    const zoom = Math.max(this.#flight?.to.zoom ?? this.#view.zoom, zoomLeast);
    const from = this.#flight?.to ?? this.#view;
    const margin = Math.min(3 * zoom, this.#height / 8, this.#width / 8);
    const clamp = (v: number, tileAt: number, before: number, after: number) =>
      Math.min(Math.max(v, tileAt + 1 - (after - margin) / zoom), tileAt + (before - margin) / zoom);
    const x = clamp(from.x, tile.x, this.#width / 2, this.#width / 2);
    const y = clamp(from.y, tile.y, this.#height / 2 - this.#coveredTop, this.#height / 2 - this.#coveredBottom);
    if (x !== from.x || y !== from.y || zoom !== from.zoom) this.flyTo({ x, y, zoom }, nowMs, lengthMs);
  }

  /** Starts to zoom by about a factor, with (px, py) fixed. */
  flyStep(px: number, py: number, factor: number, nowMs: number, lengthMs: number): void {
    const from = this.#flight?.to.zoom ?? this.#view.zoom;
    this.flyTo(this.#anchored(px, py, this.#stepped(from, factor)), nowMs, lengthMs);
  }

  /** Carries a flight on; false when there is none (any more). */
  step(nowMs: number): boolean {
    const f = this.#flight;
    if (f === null) return false;
    const t = Math.min(1, Math.max(0, (nowMs - f.startMs) / f.lengthMs));
    const eased = 1 - (1 - t) ** 3;
    // Zoom changes by factors; x and y follow so that the point that both views share stays where it is on the screen.
    const zoom = f.from.zoom * (f.to.zoom / f.from.zoom) ** eased;
    const share = f.to.zoom === f.from.zoom ? eased : (1 / f.from.zoom - 1 / zoom) / (1 / f.from.zoom - 1 / f.to.zoom);
    this.#set({ x: f.from.x + (f.to.x - f.from.x) * share, y: f.from.y + (f.to.y - f.from.y) * share, zoom });
    if (t === 1) {
      this.#set(f.to);
      this.#flight = null;
    }
    return this.#flight !== null;
  }

  /** The board's point under a point of the viewport. */
  toBoard(px: number, py: number): { x: number; y: number } {
    const { x, y, zoom } = this.#view;
    return { x: x + (px - this.#width / 2) / zoom, y: y + (py - this.#height / 2) / zoom };
  }

  /** The tile under a point of the viewport, or null outside the board. */
  tileAt(px: number, py: number): { x: number; y: number } | null {
    const p = this.toBoard(px, py);
    const x = Math.floor(p.x);
    const y = Math.floor(p.y);
    return x < 0 || y < 0 || x >= this.#boardWidth || y >= this.#boardHeight ? null : { x, y };
  }

  /** Where a board coordinate lies in the viewport, in whole device pixels. Neighbours share their edge, so no seam shows. */
  deviceX(x: number): number {
    return Math.round((x - this.#view.x) * this.#view.zoom * this.#ratio + (this.#width * this.#ratio) / 2);
  }

  deviceY(y: number): number {
    return Math.round((y - this.#view.y) * this.#view.zoom * this.#ratio + (this.#height * this.#ratio) / 2);
  }

  /** The zoom with whole device pixels per tile next to this one; below one device pixel every zoom is its own. */
  crisp(zoom: number, round: (v: number) => number): number {
    const device = zoom * this.#ratio;
    return device < 1 ? zoom : Math.max(1, round(device)) / this.#ratio;
  }

  /** About zoom * factor, but at least the next crisp zoom in that direction. */
  #stepped(zoom: number, factor: number): number {
    const wanted = this.crisp(zoom * factor, Math.round);
    const slack = 1e-9;
    if (factor > 1) return wanted > zoom + slack ? wanted : (Math.floor(zoom * this.#ratio + slack) + 1) / this.#ratio;
    if (wanted < zoom - slack) return wanted;
    const below = Math.ceil(zoom * this.#ratio - slack) - 1;
    return below >= 1 ? below / this.#ratio : zoom * factor;
  }

  #anchored(px: number, py: number, zoom: number): View {
    const at = this.toBoard(px, py);
    const z = this.#clampedZoom(zoom);
    return { x: at.x - (px - this.#width / 2) / z, y: at.y - (py - this.#height / 2) / z, zoom: z };
  }

  #clampedZoom(zoom: number): number {
    return Math.min(ZOOM_MAX, Math.max(this.zoomMin, zoom));
  }

  #clamped(v: View): View {
    const clamp = (p: number, most: number) => Math.min(most, Math.max(0, p));
    return { x: clamp(v.x, this.#boardWidth), y: clamp(v.y, this.#boardHeight), zoom: this.#clampedZoom(v.zoom) };
  }

  #set(view: View): void {
    this.#view = this.#clamped(view);
  }
}
