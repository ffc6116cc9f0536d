// The page: puts session, camera, renderer, input and panels together and decides what a tap means. One animation frame is
// asked for when something in view has changed; when nothing moves, nothing runs.

import { Account } from "./account.ts";
import { fetchBoard, fetchTile } from "./api.ts";
import { Camera, ZOOM_AIM, ZOOM_CLOSE } from "./camera.ts";
import { browserClock } from "./clock.ts";
import { element } from "./dom.ts";
import { CHUNK_SIZE, chunkOf, type ChunkRect, type Point } from "./grid.ts";
import { Input, ZOOM_STEP } from "./input.ts";
import { connect } from "./link.ts";
import { Palette } from "./palette.ts";
import { Code } from "./refusals.ts";
import { Renderer } from "./renderer.ts";
import { Session, type SessionState } from "./session.ts";
import type { Settings } from "./settings.ts";
import { UI } from "./ui.ts";
import { SUBSCRIBE_CHUNKS_MAX } from "./wire.ts";
import { refusalWords, stateWords, tileWords, timerWords, type TimerWords } from "./words.ts";

const FLIGHT_MS = 220;
const TICK_MS = 250; // of what counts down
const PARK_AFTER_MS = 5 * 60 * 1000; // hidden for so long, the link is closed
const FOLLOW_PAUSE_MS = 150;
const DETAILS_PAUSE_MS = 300;
/** A mouse may look at tiles from this zoom on without going closer first. */
const ZOOM_LOOK = 3;

class Page {
  readonly #canvas = element("board", HTMLCanvasElement);
  readonly #dock = document.querySelector<HTMLElement>(".dock")!;
  readonly #top = document.querySelector<HTMLElement>(".top")!;
  readonly #banners = document.querySelector<HTMLElement>(".banners")!;
  readonly #camera = new Camera();
  readonly #session: Session;
  readonly #renderer: Renderer;
  readonly #input: Input;
  readonly #ui: UI;
  readonly #palette = new Palette();
  readonly #account = new Account(() => this.#session.connect());
  readonly #calm = matchMedia("(prefers-reduced-motion: reduce)");

  #frame = 0; // the animation frame asked for, 0 for none
  #tick = 0; // the interval of what counts down, 0 for none
  #mouse: { px: number; py: number } | null = null; // where it is over the board
  #hover: Point | null = null; // the tile under it
  #selected: Point | null = null;
  #chosen = false; // the selected tile was chosen to place on, not only to look at
  #who = ""; // what the card says of the selected tile
  #when = "";
  #asked = 0; // the number of the newest question about a tile
  #askTimer = 0;
  #liveUntil: Date | null = null; // when the board on show was last live; null while it is, or before it ever was
  #timer: TimerWords = { state: "unknown", text: "", clock: "" };
  #followTimer = 0;
  #parkTimer = 0;

  constructor() {
    this.#session = new Session(
      {
        clock: browserClock,
        connect,
        fetchBoard,
        random: Math.random,
        nonce() {
          const [hi, lo] = crypto.getRandomValues(new Uint32Array(2));
          return { hi: hi!, lo: lo! };
        },
      },
      {
        state: (s) => this.#showState(s),
        settings: (s) => this.#takeSettings(s),
        me: () => this.#showMe(),
        online: (people) => {
          this.#ui.setOnline(people);
          document.documentElement.dataset["divergences"] = String(this.#session.divergences);
        },
        pending: () => this.#showPending(),
        accepted: (p) => this.#ui.say(`Placed ${this.#palette.name(p.colour)} at ${p.x}, ${p.y}.`),
        refused: (_, code) => this.#refuse(code),
        placedElsewhere: (m) => this.#ui.toast(`Your tile at (${m.x}, ${m.y}) is on the board.`),
      },
    );
    this.#renderer = new Renderer(this.#canvas, this.#session.board, this.#camera);
    this.#renderer.onDirty = () => this.#draw();
    this.#session.board.onChange = (chunk, tiles) => {
      this.#renderer.markChunk(chunk, tiles);
      this.#tilesChanged(chunk);
    };
    this.#ui = new UI({
      retry: () => this.#session.retryNow(),
      zoom: (step) => this.#zoom(step),
      place: () => this.#placeSelected(),
      closeTile: () => this.#select(null),
    });
    this.#input = new Input(this.#canvas, this.#camera, {
      moved: () => this.#moved(),
      tap: (px, py, touch, look) => this.#tap(px, py, touch, look),
      hover: (at) => {
        this.#mouse = at;
        this.#moved();
      },
      key: (name) => this.#key(name),
    });
    this.#palette.onChange = () => this.#brushChanged();
    this.#watchSize();
    this.#watchVisibility();
    this.#session.connect();
  }

  // ---- what the session tells ----

  #showState(s: SessionState): void {
    if (s.kind === "live" || s.kind === "catchingUp") this.#liveUntil = null;
    else if (this.#session.hasBoard) this.#liveUntil ??= new Date();
    const boardTime = this.#session.hasBoard && this.#liveUntil !== null ? this.#liveUntil.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : "";
    this.#ui.setStatus(s.kind, stateWords(s, browserClock.now(), boardTime), s.kind === "waiting");
    if (this.#renderer.scene.ready !== this.#session.hasBoard) {
      this.#renderer.scene.ready = this.#session.hasBoard;
      this.#draw();
    }
    this.#showMe();
  }

  #takeSettings(s: Settings): void {
    const first = this.#renderer.scene.settings === null;
    this.#palette.setEntries(s.palette);
    this.#renderer.setSettings(s);
    this.#camera.setBoard(s.width, s.height);
    const frozen = s.loading ? "The board is being loaded: look around, placing comes later." : "The board is frozen: look around, but nothing can be placed.";
    this.#ui.setBanners(s.announcement, s.frozen || s.loading ? frozen : "");
    this.#measure();
    if (first || this.#camera.fitted) this.#camera.fit();
    if (this.#selected !== null && (this.#selected.x >= s.width || this.#selected.y >= s.height)) this.#select(null);
    this.#moved();
    this.#showMe();
  }

  #showMe(): void {
    this.#account.show(this.#session.user);
    this.#showTimer();
    this.#keepTicking();
  }

  #showTimer(): void {
    const { cooldown, settings, pending, user, bannedUntilMs } = this.#session;
    const unsettled = pending.unsettled;
    const leftMs = cooldown.leftMs();
    this.#timer = timerWords(
      {
        signedIn: user !== "",
        connected: ["loading", "catchingUp", "live"].includes(this.#session.state.kind) && (user === "" || cooldown.known),
        frozen: settings?.frozen === true || settings?.loading === true,
        bannedUntilMs,
        pending: unsettled === null ? null : unsettled.state === "charged" ? "charged" : "sent",
        leftMs,
      },
      Date.now(),
    );
    const whole = Math.max(settings?.cooldownMs ?? 0, leftMs, 1);
    this.#ui.setTimer(this.#timer, this.#timer.state === "waiting" ? leftMs / whole : 0);
    this.#showTile();
  }

  /** Counts down while there is something to count. */
  #keepTicking(): void {
    const needed = this.#session.cooldown.leftMs() > 0 || this.#session.state.kind === "waiting";
    if (needed && this.#tick === 0) {
      this.#tick = window.setInterval(() => {
        this.#showState(this.#session.state);
      }, TICK_MS);
    } else if (!needed && this.#tick !== 0) {
      clearInterval(this.#tick);
      this.#tick = 0;
    }
  }

  #showPending(): void {
    const all = this.#session.pending.all;
    this.#renderer.scene.pending = all.map(({ x, y, colour }) => ({ x, y, colour }));
    this.#canvas.dataset["pending"] = String(all.length);
    this.#showTimer();
    this.#draw();
  }

  #refuse(code: number | "early" | "unsettled"): void {
    this.#ui.toast(refusalWords(code, this.#session.cooldown.leftMs()));
    if (code === Code.signIn) this.#account.open();
  }

  // ---- drawing ----

  #draw(): void {
    if (this.#frame !== 0) return;
    this.#frame = requestAnimationFrame((now) => {
      this.#frame = 0;
      const flying = this.#camera.step(now);
      const walking = this.#input.step(now);
      if (flying || walking) this.#moved();
      this.#renderer.draw();
    });
  }

  #moved(): void {
    const { x, y, zoom } = this.#camera.view;
    this.#hover = this.#mouse === null ? null : this.#camera.tileAt(this.#mouse.px, this.#mouse.py);
    this.#renderer.scene.hover = zoom >= ZOOM_LOOK ? this.#hover : null;
    this.#aim();
    const middle = { x: Math.floor(x), y: Math.floor(y) };
    this.#ui.setCoords(this.#hover ?? this.#selected ?? (zoom >= ZOOM_AIM ? middle : null), zoom);
    this.#draw();
    if (this.#followTimer === 0) {
      this.#followTimer = window.setTimeout(() => {
        this.#followTimer = 0;
        this.#session.follow(this.#chunksInView());
      }, FOLLOW_PAUSE_MS);
    }
  }

  /** The chunks in view and one around them, about the middle when they are more than may be followed. */
  #chunksInView(): ChunkRect {
    const side = Math.floor(Math.sqrt(SUBSCRIBE_CHUNKS_MAX));
    const from = this.#camera.toBoard(0, 0);
    const to = this.#camera.toBoard(this.#camera.width, this.#camera.height);
    const span = (a: number, b: number): [number, number] => {
      const first = Math.floor(a / CHUNK_SIZE) - 1;
      const count = Math.ceil(b / CHUNK_SIZE) + 1 - first;
      return count <= side ? [first, count] : [Math.floor((a + b) / 2 / CHUNK_SIZE - side / 2), side];
    };
    const [col, cols] = span(from.x, to.x);
    const [row, rows] = span(from.y, to.y);
    return { col, row, cols, rows };
  }

  /** Follows the size of the canvas in device pixels, exactly where the browser tells them. */
  #watchSize(): void {
    const observer = new ResizeObserver((entries) => {
      const exact = entries.find((e) => e.target === this.#canvas)?.devicePixelContentBoxSize?.[0];
      if (exact !== undefined) this.#renderer.resize(exact.inlineSize, exact.blockSize);
      this.#measure(exact === undefined);
      this.#moved();
      this.#renderer.draw(); // a resized canvas is black, and this runs after the frame's callbacks and before it is shown
    });
    try {
      observer.observe(this.#canvas, { box: "device-pixel-content-box" });
    } catch {
      observer.observe(this.#canvas);
    }
    observer.observe(element("palette", HTMLElement));
    observer.observe(this.#banners);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#renderer.restyle());
  }

  #measure(roundly = false): void {
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    if (roundly) this.#renderer.resize(Math.round(width * devicePixelRatio), Math.round(height * devicePixelRatio));
    const bottom = height - this.#dock.querySelector(".row")!.getBoundingClientRect().top;
    const top = Math.max(this.#top.getBoundingClientRect().bottom, this.#banners.getBoundingClientRect().bottom) + 4;
    this.#camera.setViewport(width, height, this.#canvas.width / Math.max(1, width), top, bottom);
  }

  #flightMs(): number {
    return this.#calm.matches ? 0 : FLIGHT_MS;
  }

  #zoom(step: "in" | "out" | "fit"): void {
    const { width, height } = this.#camera;
    const now = performance.now();
    if (step === "fit") this.#camera.flyToFit(now, this.#flightMs());
    else this.#camera.flyStep(width / 2, height / 2, step === "in" ? ZOOM_STEP ** 2 : ZOOM_STEP ** -2, now, this.#flightMs());
    this.#moved();
  }

  // ---- what hands do ----

  #aim(): void {
    const at = this.#chosen ? this.#selected : this.#hover;
    const colour = this.#palette.colour;
    this.#renderer.scene.aim = at === null || colour === null ? null : { ...at, colour };
  }

  #tap(px: number, py: number, touch: boolean, look: boolean): void {
    const tile = this.#camera.tileAt(px, py);
    if (tile === null) return this.#select(null);
    const brush = look ? null : this.#palette.colour;
    const { zoom } = this.#camera.view;
    if (zoom < (touch || brush !== null ? ZOOM_AIM : ZOOM_LOOK)) {
      // Too far away to hit one tile: go closer first.
      this.#camera.flyStep(px, py, ZOOM_CLOSE / zoom, performance.now(), this.#flightMs());
      return this.#moved();
    }
    const again = this.#selected !== null && this.#selected.x === tile.x && this.#selected.y === tile.y;
    if (brush !== null && (!touch || again)) this.#place(tile);
    else this.#select(tile, brush !== null);
  }

  #key(name: "enter" | "escape" | "zoomIn" | "zoomOut"): void {
    switch (name) {
      case "zoomIn":
        return this.#zoom("in");
      case "zoomOut":
        return this.#zoom("out");
      case "escape":
        if (this.#selected !== null) return this.#select(null);
        return this.#palette.drop();
      case "enter": {
        const { width, height } = this.#camera;
        const middle = this.#camera.tileAt(width / 2, height / 2);
        if (middle !== null) this.#tap(width / 2, height / 2, true, false);
      }
    }
  }

  #brushChanged(): void {
    this.#aim();
    this.#showTile();
    this.#draw();
  }

  #placeSelected(): void {
    if (this.#selected !== null) this.#place(this.#selected);
  }

  #place(tile: Point): void {
    const colour = this.#palette.colour;
    if (colour === null) return;
    const result = this.#session.place(tile.x, tile.y, colour);
    if (!result.ok) this.#refuse(result.code);
    else if (this.#selected !== null) this.#select(null);
  }

  // ---- the selected tile ----

  #select(tile: Point | null, chosen = false): void {
    this.#selected = tile;
    this.#chosen = chosen;
    this.#renderer.scene.selected = tile;
    this.#who = "";
    this.#when = "";
    if (tile === null) this.#ui.hideTile();
    else this.#ask(tile);
    this.#aim();
    this.#showTile();
    this.#moved();
  }

  #showTile(): void {
    const tile = this.#selected;
    if (tile === null) return;
    const colour = this.#session.board.colourAt(tile.x, tile.y);
    const brush = this.#palette.colour;
    const { state, clock } = this.#timer;
    const button =
      brush === null ? null
      : state === "ready" || state === "signedOut" ? { text: `Place ${this.#palette.name(brush)}`, enabled: true }
      : { text: state === "waiting" ? `Wait ${clock}` : "Place", enabled: false };
    const card = { ...tile, css: this.#palette.css(colour), name: this.#palette.name(colour), who: this.#who, when: this.#when };
    this.#ui.showTile(card, button);
  }

  #tilesChanged(chunk: number): void {
    const tile = this.#selected;
    if (tile === null || chunkOf(tile.x, tile.y) !== chunk) return;
    this.#showTile();
    clearTimeout(this.#askTimer);
    this.#askTimer = window.setTimeout(() => {
      if (this.#selected === tile) this.#ask(tile);
    }, DETAILS_PAUSE_MS);
  }

  /** Asks who placed the tile. */
  #ask(tile: Point): void {
    const number = ++this.#asked;
    const answer = (who: string, when: string) => {
      if (number !== this.#asked || this.#selected !== tile) return;
      this.#who = who;
      this.#when = when;
      this.#showTile();
    };
    fetchTile(tile.x, tile.y).then(
      (t) => answer(tileWords(t, Date.now()), t.placed ? new Date(t.atMs).toLocaleString() : ""),
      () => answer("Who placed it cannot be told at the moment.", ""),
    );
  }

  // ---- being looked at ----

  #watchVisibility(): void {
    document.addEventListener("visibilitychange", () => {
      clearTimeout(this.#parkTimer);
      if (document.hidden) {
        this.#parkTimer = window.setTimeout(() => this.#session.park(), PARK_AFTER_MS);
        return;
      }
      this.#session.wake();
      this.#showTimer();
      this.#draw();
    });
    window.addEventListener("pagehide", () => this.#session.park());
    window.addEventListener("pageshow", (e) => {
      if (e.persisted) this.#session.wake();
    });
    window.addEventListener("online", () => this.#session.retryNow());
  }
}

new Page();
