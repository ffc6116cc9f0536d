// The state machine between the node and the board: connect, hello, subscribe, keep frames, fetch the board, apply, live;
// repair of single chunks, comparison of hashes, placements with their retries, and connecting again whenever the link
// breaks, without losing what is held. It knows no DOM: main.ts gives it a way to connect, a way to fetch, and a clock.

import { Board } from "./board.ts";
import type { Clock } from "./clock.ts";
import { Cooldown } from "./cooldown.ts";
import { boardChunks, rectHas, rectWithin, sameRect, type ChunkRect } from "./grid.ts";
import { sameWord, type Word } from "./hash.ts";
import { ANSWER_MS_MAX, PendingPlacements, type Pending } from "./pending.ts";
import { Code, passes } from "./refusals.ts";
import { sentWhole, type Settings } from "./settings.ts";
import * as wire from "./wire.ts";

/** A placement that waits for the end of the cooldown. */
export interface Armed {
  readonly x: number;
  readonly y: number;
  readonly colour: number;
}

/** A connection to a node. After close no event comes any more. */
export interface Link {
  send(m: wire.ClientMessage): void;
  close(): void;
}

export interface LinkEvents {
  message(m: wire.ServerMessage): void;
  /** The link broke or could not be made. Code is the websocket's close code. */
  closed(code: number): void;
}

/** What the session needs from the world. */
export interface World {
  readonly clock: Clock;
  connect(events: LinkEvents): Link;
  /** Fetches the whole board; fresh: past every cache. Rejects when there is none to be had. */
  fetchBoard(fresh: boolean): Promise<wire.BoardBody>;
  /** Uniform in [0, 1). */
  random(): number;
  /** 64 random bits. */
  nonce(): Word;
}

export type SessionState =
  | { readonly kind: "connecting" }
  | { readonly kind: "loading" }
  | { readonly kind: "catchingUp"; readonly chunks: number }
  | { readonly kind: "live" }
  | { readonly kind: "waiting"; readonly untilMs: number } // on the clock
  | { readonly kind: "parked" } // closed because nobody looks
  | { readonly kind: "stopped" }; // the node says that this page is faulty: it does not connect again by itself

/** What the session tells the page. */
export interface SessionEvents {
  state(s: SessionState): void;
  settings(s: Settings): void;
  /** The signed-in user, their turn, their ban or the cooldown changed. */
  me(): void;
  online(people: number): void;
  /** The list of pending placements changed. */
  pending(): void;
  /** A placement of this page is final. */
  accepted(p: Pending): void;
  refused(tile: Armed, code: number | "early" | "unsettled"): void;
  /** Another page of this user placed a tile, or a copy that was given up came through. */
  placedElsewhere(m: wire.Placed): void;
}

export type PlaceResult = { readonly ok: true; readonly armed: boolean } | { readonly ok: false; readonly code: number | "early" | "unsettled" };

// Waits, in milliseconds.
const HELLO_MS_MAX = 15_000;
const BACKOFF_MS_BASE = 1000;
const BACKOFF_MS_MAX = 30_000;
const HEALTHY_MS_MIN = 30_000; // a link that held this long starts the backoff anew
const HEARTBEAT_MS_MIN = 1000;
const HEARTBEAT_MS_MAX = 120_000;
const SILENT_BEATS = 2.5; // a link that is silent for so many heartbeats is dead, whatever the socket says
const REPAIR_PAUSE_MS = 100; // between two repairs, within the node's limit of messages
const REPAIR_ANSWER_MS_MAX = 5000;
const FETCH_RETRY_MS = 1000;
const HASH_PAUSE_MS = 30;
const HASH_CHUNKS = 40; // hashed per pause: a few milliseconds
const BUSY_RETRIES_MAX = 3;
const NOTICE_RETRY_MS_MIN = 500;
/** A placement asked for so shortly before the cooldown ends waits for it. */
export const ARM_MS_MAX = 5000;

// Close codes, as docs/protocol.md lists them.
const CLOSE_FAULTY: readonly number[] = [1003, 1009, 4002]; // text, too big, malformed: this page speaks wrongly
const CLOSE_TRY_LATER = 1013;
const CLOSE_FLOOD = 4000;

export class Session {
  readonly board = new Board();
  readonly pending = new PendingPlacements();
  readonly cooldown: Cooldown;

  /** How often a heartbeat showed that this page held other tiles than the node. */
  divergences = 0;

  readonly #world: World;
  readonly #events: SessionEvents;
  #state: SessionState = { kind: "connecting" };
  #link: Link | null = null;
  #epoch: Word | null = null;
  #incarnation: Word | null = null;
  #tick: number | null = null; // the last tick of which everything has come: frames of one tick may be several
  #newest = 0; // the tick of the newest frame
  #settings: Settings | null = null;
  #user = "";
  #turn: number | null = null;
  #bannedUntilMs = 0;
  #view: ChunkRect | null = null; // what a board that is not sent whole is followed in

  #greeted = false; // this link has said hello
  #based = false; // and has answered the subscription
  #resumes = false; // the subscription under way is a resume
  #held = false; // the board is here: repairs bring it up to date
  #heardMs = 0;
  #greetedMs = 0;
  #heartbeatMs = 15_000;
  #attempts = 0;
  #fetches = 0; // the number of the fetch under way; an older one is ignored
  #aheadBeats = 0;
  #hashing = false;
  #audit: ChunkRect[] = []; // rectangles whose hashes are still to be compared; the first is asked for
  #repairedMs = 0;
  #armed: Armed | null = null;

  readonly #timers = new Map<string, () => void>();

  constructor(world: World, events: SessionEvents) {
    this.#world = world;
    this.#events = events;
    this.cooldown = new Cooldown(world.clock);
  }

  get state(): SessionState {
    return this.#state;
  }

  get settings(): Settings | null {
    return this.#settings;
  }

  /** The signed-in user, "" for none. */
  get user(): string {
    return this.#user;
  }

  /** Until when the user is banned in Unix milliseconds, 0 for not at all. */
  get bannedUntilMs(): number {
    return this.#bannedUntilMs;
  }

  /** Whether there is a board to show, be it an old one. */
  get hasBoard(): boolean {
    return this.#held;
  }

  // ---- connecting ----

  /** Connects now, whatever the state: at the start, after signing in or out, and when a person asks for it. */
  connect(): void {
    this.#unlink();
    this.#cancel("reconnect");
    this.#setState({ kind: "connecting" });
    this.#greeted = false;
    this.#based = false;
    let link: Link | null = null;
    const mine = () => this.#link === link && link !== null;
    link = this.#world.connect({
      message: (m) => {
        if (mine()) this.#receive(m);
      },
      closed: (code) => {
        if (mine()) this.#lost(code);
      },
    });
    this.#link = link;
    this.#after("watchdog", HELLO_MS_MAX, () => this.#lost(0));
  }

  /** Connects now if it waits to. */
  retryNow(): void {
    if (this.#state.kind === "waiting") this.connect();
  }

  /** Closes the link because nobody looks; wake opens it again. */
  park(): void {
    if (this.#state.kind === "stopped") return;
    this.#unlink();
    this.#cancel("reconnect");
    this.#setState({ kind: "parked" });
  }

  /**
   * Somebody looks again: connects if need be, also when the link has been silent for longer than it should. sleptMs: for how
   * long the machine has slept, as far as anybody knows; the clock may have stood still meanwhile.
   */
  wake(sleptMs = 0): void {
    const silentMs = this.#world.clock.now() - this.#heardMs + sleptMs;
    const stale = this.#greeted && silentMs > this.#heartbeatMs + 1000;
    if (this.#state.kind === "parked" || this.#state.kind === "waiting" || stale) this.connect();
  }

  #unlink(): void {
    const link = this.#link;
    this.#link = null;
    this.#audit = [];
    this.#fetches++;
    for (const name of ["watchdog", "repair", "fetch", "place", "resubscribe"]) this.#cancel(name);
    link?.close();
  }

  #lost(code: number): void {
    const clock = this.#world.clock;
    if (this.#greeted && clock.now() - this.#greetedMs >= HEALTHY_MS_MIN) this.#attempts = 0;
    this.#unlink();
    if (CLOSE_FAULTY.includes(code)) {
      this.#setState({ kind: "stopped" });
      return;
    }
    // Full jitter: a hundred thousand pages that lose a node together come back spread out.
    let most = Math.min(BACKOFF_MS_MAX, BACKOFF_MS_BASE * 2 ** this.#attempts);
    if (code === CLOSE_TRY_LATER || code === CLOSE_FLOOD) most = BACKOFF_MS_MAX;
    this.#attempts++;
    this.#reconnectIn(most * this.#world.random());
  }

  #reconnectIn(ms: number): void {
    this.#setState({ kind: "waiting", untilMs: this.#world.clock.now() + ms });
    this.#after("reconnect", ms, () => this.connect());
  }

  // ---- receiving ----

  #receive(m: wire.ServerMessage): void {
    this.#heardMs = this.#world.clock.now();
    this.#after("watchdog", this.#greeted ? this.#heartbeatMs * SILENT_BEATS : HELLO_MS_MAX, () => this.#lost(0));
    if (m.type === "hello") return this.#hello(m);
    if (!this.#greeted) return;
    switch (m.type) {
      case "base":
        return this.#base(m);
      case "frame":
        return this.#frame(m);
      case "heartbeat":
        return this.#heartbeat(m);
      case "me":
        return this.#me(m.turn, m.waitMs, m.bannedUntilMs);
      case "placed":
        return this.#placed(m);
      case "settingsChanged":
        return this.#changed(m);
      case "chunkHashes":
        return this.#chunkHashes(m);
      case "notice":
        return this.#notice(m);
      case "move":
        this.#unlink();
        return this.#reconnectIn(m.withinMs * this.#world.random());
    }
  }

  #hello(m: wire.Hello): void {
    this.#greeted = true;
    this.#greetedMs = this.#heardMs;
    this.#heartbeatMs = Math.min(HEARTBEAT_MS_MAX, Math.max(HEARTBEAT_MS_MIN, m.heartbeatMs));
    this.#after("watchdog", this.#heartbeatMs * SILENT_BEATS, () => this.#lost(0));
    if (this.#epoch === null || !sameWord(this.#epoch, m.epoch)) this.#newBoard();
    if (m.user !== this.#user) this.#newUser(m.user);
    const scope = this.#wantedScope(m.settings);
    const sameNode = this.#incarnation !== null && sameWord(this.#incarnation, m.incarnation);
    this.#epoch = m.epoch;
    this.#incarnation = m.incarnation;
    this.cooldown.observe(m.serverTimeMs);
    if (m.me !== null) this.#me(m.me.turn, m.me.waitMs, this.#bannedUntilMs);
    else this.#events.me();
    this.#takeSettings(m.settings);
    const resumes = this.#held && this.#tick !== null && sameNode && sameRect(scope, this.board.scope);
    this.board.scope = scope;
    this.#subscribe(resumes ? { epoch: m.epoch, incarnation: m.incarnation, tick: this.#tick! } : null);
    const p = this.pending.unsettled;
    if (p !== null) this.#send(p);
  }

  /** Another board than the one held: what is left of that one means nothing. */
  #newBoard(): void {
    this.board.clear();
    this.#held = false;
    this.#tick = null;
    this.#hashing = false;
    this.#dropPending();
  }

  #newUser(user: string): void {
    this.#user = user;
    this.#turn = null;
    this.#bannedUntilMs = 0;
    this.cooldown.forget();
    this.#dropPending();
  }

  #dropPending(): void {
    if (this.pending.all.length === 0 && this.#armed === null) return;
    this.pending.clear();
    this.#armed = null;
    this.#events.pending();
  }

  #takeSettings(s: Settings): void {
    this.#settings = s;
    this.#events.settings(s);
  }

  #wantedScope(s: Settings): ChunkRect {
    const all = boardChunks(s.width, s.height);
    return sentWhole(s) ? all : rectWithin(this.#view ?? { col: 0, row: 0, cols: 0, rows: 0 }, all);
  }

  /** Says which chunks are in view. Boards too large to be sent whole are followed there; others do not care. */
  follow(view: ChunkRect): void {
    this.#view = view;
    if (this.#settings === null) return;
    const scope = this.#wantedScope(this.#settings);
    if (sameRect(scope, this.board.scope)) return;
    this.board.scope = scope;
    if (this.#greeted && this.#link !== null) this.#subscribe(null);
  }

  #subscribe(resume: wire.Resume | null): void {
    const whole = this.#settings !== null && sentWhole(this.#settings);
    this.#based = false;
    this.#resumes = resume !== null;
    if (resume === null) this.#tick = null; // no resume from before: the base to come counts anew
    this.#audit = [];
    this.#cancel("repair");
    if (whole && !this.#held) {
      this.board.expectBoard();
      this.#setState({ kind: "loading" });
    }
    this.#link?.send({ type: "subscribe", chunks: whole ? null : this.board.scope, resume });
  }

  #base(m: wire.Base): void {
    this.#based = true;
    if (!m.resumed || !this.#resumes) this.board.base(m.tick, m.chunks);
    this.#resumes = false;
    this.#tick = this.#newest = m.tick;
    this.board.forgetRepairs();
    if (this.#held) return this.#look();
    if (this.#settings !== null && sentWhole(this.#settings)) return this.#fetch(false);
    this.#held = true; // there is nothing to fetch: repairs bring the chunks in view
    this.#look();
  }

  #fetch(fresh: boolean): void {
    const number = ++this.#fetches;
    this.#world.fetchBoard(fresh).then(
      (body) => {
        if (number !== this.#fetches) return;
        if (this.#epoch === null || !sameWord(body.epoch, this.#epoch)) return this.#fetchAgain(); // a cache's copy of an older board
        this.board.load(body);
        this.#held = true;
        this.#hashOn();
        this.#settlePending();
        this.#look();
      },
      () => {
        if (number === this.#fetches) this.#fetchAgain();
      },
    );
  }

  #fetchAgain(): void {
    this.#after("fetch", FETCH_RETRY_MS * (0.5 + this.#world.random()), () => this.#fetch(true));
  }

  #frame(m: wire.Frame): void {
    this.board.apply(m);
    if (!m.repair && m.tick > this.#newest) {
      if (this.#tick !== null) this.#tick = Math.max(this.#tick, this.#newest);
      this.#newest = m.tick;
    }
    this.#settlePending();
    this.#look();
  }

  #settlePending(): void {
    if (this.pending.settle((chunk) => (rectHas(this.board.scope, chunk) ? this.board.heldOf(chunk) : Infinity))) this.#events.pending();
  }

  // ---- staying right ----

  /** Tells the state and repairs what is behind. */
  #look(): void {
    if (!this.#based || !this.#held) return;
    const behind = this.board.behind();
    this.#setState(behind === 0 ? { kind: "live" } : { kind: "catchingUp", chunks: behind });
    if (behind > 0 && !this.#timers.has("repair")) this.#repair();
  }

  #repair(): void {
    const now = this.#world.clock.now();
    if (now - this.#repairedMs >= REPAIR_ANSWER_MS_MAX) this.board.doubtRepairs();
    const chunks = this.board.takeRepairs(wire.REPAIR_CHUNKS_MAX);
    if (chunks.length > 0) {
      this.#repairedMs = now;
      this.#link?.send({ type: "repair", chunks });
    }
    this.#after("repair", REPAIR_PAUSE_MS, () => {
      if (this.board.behind() > 0) this.#repair();
    });
  }

  /** Hashes a new board a few chunks at a time, so that the first heartbeat does not cost one long task. */
  #hashOn(): void {
    this.#hashing = true;
    this.#after("hash", HASH_PAUSE_MS, () => {
      this.#hashing = this.board.hashSome(HASH_CHUNKS);
      if (this.#hashing) this.#hashOn();
    });
  }

  #heartbeat(m: wire.Heartbeat): void {
    this.cooldown.observe(m.serverTimeMs);
    this.#events.online(m.online);
    if (this.#based) this.#tick = Math.max(this.#tick ?? 0, m.tick);
    if (this.#state.kind !== "live" || !this.#based || this.#hashing || this.#audit.length > 0) return;
    if (!this.board.level()) {
      // Chunks that stay ahead of their frames hold placements that the node does not know.
      if (++this.#aheadBeats >= 2) this.#startAudit();
      return;
    }
    this.#aheadBeats = 0;
    const mine = this.board.hashes();
    if (!sameWord(mine.tiles, m.tiles) || !sameWord(mine.sequences, m.sequences)) this.#startAudit();
  }

  #startAudit(): void {
    this.divergences++;
    this.#aheadBeats = 0;
    const { col, row, cols, rows } = this.board.scope;
    const step = Math.max(1, Math.floor(wire.HASHES_CHUNKS_MAX / Math.max(1, cols)));
    for (let r = 0; r < rows; r += step) this.#audit.push({ col, row: row + r, cols, rows: Math.min(step, rows - r) });
    this.#askHashes();
  }

  #askHashes(): void {
    const chunks = this.#audit[0];
    if (chunks !== undefined) this.#link?.send({ type: "getHashes", chunks });
  }

  #chunkHashes(m: wire.ChunkHashes): void {
    const rect = this.#audit.shift();
    if (rect === undefined) return;
    this.board.compare(rect, m.tick, m.chunks);
    this.#askHashes();
    this.#look();
  }

  #changed(m: wire.SettingsChanged): void {
    const whole = this.#settings !== null && sentWhole(this.#settings);
    const scope = this.#wantedScope(m.settings);
    this.#takeSettings(m.settings);
    if (sameRect(scope, this.board.scope)) return;
    if (whole && sentWhole(m.settings) && this.#based) {
      this.board.grow(scope); // or shrinks: the subscription goes on
      return this.#look();
    }
    this.board.scope = scope;
    this.#subscribe(null);
  }

  #notice(m: wire.Notice): void {
    if (m.retryMs === 0) return; // trying again would change nothing
    const ms = Math.max(NOTICE_RETRY_MS_MIN, m.retryMs);
    const p = this.pending.unsettled;
    if (p !== null) {
      p.sendAgainMs = Math.min(p.sendAgainMs, this.#world.clock.now() + ms);
      this.#schedulePlace();
    }
    this.board.forgetRepairs();
    this.#audit = [];
    if (!this.#based) this.#after("resubscribe", ms, () => this.#subscribe(null));
    else if (this.board.behind() > 0) this.#after("repair", ms, () => this.#repair());
  }

  // ---- placing ----

  #me(turn: number, waitMs: number, bannedUntilMs: number): void {
    this.#turn = turn;
    this.#bannedUntilMs = bannedUntilMs;
    this.cooldown.set(waitMs);
    this.#events.me();
    this.#aim();
  }

  /** Whether a placement asked for now would wait for the end of the cooldown instead of being refused. */
  get mayArm(): boolean {
    const leftMs = this.cooldown.leftMs();
    return leftMs > 0 && leftMs <= ARM_MS_MAX;
  }

  /** The placement that waits for the end of the cooldown, of which there is one at most. */
  get armed(): Armed | null {
    return this.#armed;
  }

  /** Gives up the placement that waits. */
  disarm(): void {
    if (this.#armed === null) return;
    this.#armed = null;
    this.#cancel("armed");
    this.#events.pending();
  }

  /** Sends what is armed once the cooldown is over, or as soon after it as the node can be reached. */
  #aim(): void {
    if (this.#armed === null) return;
    this.#after("armed", this.cooldown.leftMs(), () => {
      const a = this.#armed;
      if (a === null || !this.#greeted || this.#link === null || this.#turn === null) return; // Hello or Me comes back here
      if (this.cooldown.leftMs() > 0) return this.#aim();
      this.#armed = null;
      const result = this.place(a.x, a.y, a.colour);
      if (result.ok) return;
      this.#events.pending();
      this.#events.refused(a, result.code);
    });
  }

  /** Sends a placement, arms one whose turn comes in a moment, or says at once why it would be refused. */
  place(x: number, y: number, colour: number): PlaceResult {
    const s = this.#settings;
    const refuse = (code: number | "early" | "unsettled"): PlaceResult => ({ ok: false, code });
    if (s === null || this.#link === null || !this.#greeted) return refuse("early");
    if (this.#user === "") return refuse(Code.signIn);
    if (this.#turn === null) return refuse("early");
    if (this.pending.unsettled !== null) return refuse("unsettled");
    if (s.loading) return refuse(Code.loading);
    if (x < 0 || y < 0 || x >= s.width || y >= s.height) return refuse(Code.bounds);
    if (s.palette[colour]?.closed !== false) return refuse(Code.colour);
    if (s.frozen) return refuse(Code.frozen);
    const leftMs = this.cooldown.leftMs();
    if (leftMs > ARM_MS_MAX) return refuse(Code.cooldown);
    this.#armed = null;
    if (leftMs > 0) {
      this.#armed = { x, y, colour };
      this.#aim();
      this.#events.pending();
      return { ok: true, armed: true };
    }
    const p = this.pending.add(this.#turn, this.#world.nonce(), x, y, colour, this.#world.clock.now());
    this.#send(p);
    this.#events.pending();
    return { ok: true, armed: false };
  }

  #send(p: Pending): void {
    p.sendAgainMs = this.#world.clock.now() + ANSWER_MS_MAX;
    this.#link?.send({ type: "place", turn: p.turn, nonce: p.nonce, x: p.x, y: p.y, colour: p.colour });
    this.#schedulePlace();
  }

  #schedulePlace(): void {
    const p = this.pending.unsettled;
    if (p === null) return this.#cancel("place");
    this.#after("place", Math.max(0, p.sendAgainMs - this.#world.clock.now()), () => {
      const again = this.pending.unsettled;
      if (again !== null && this.#greeted) this.#send(again);
    });
  }

  #placed(m: wire.Placed): void {
    if (m.nextTurn > 0) this.#turn = m.nextTurn;
    const onTheBoard = m.verdict === "accepted" || m.verdict === "charged";
    if (onTheBoard || (m.verdict === "refused" && m.code === Code.cooldown)) this.cooldown.set(m.waitMs);
    const p = this.pending.find(m);
    if (p === null) {
      if (m.verdict === "accepted") this.#events.placedElsewhere(m);
    } else if (p.state !== "accepted") {
      this.#answered(p, m);
    }
    this.#events.me();
  }

  #answered(p: Pending, m: wire.Placed): void {
    const now = this.#world.clock.now();
    switch (m.verdict) {
      case "accepted":
        p.state = "accepted";
        p.chunk = m.chunk;
        p.sequence = m.sequence;
        this.#events.accepted(p);
        this.#settlePending();
        break;
      case "charged":
        p.state = "charged";
        p.sendAgainMs = now + ANSWER_MS_MAX;
        break;
      case "unknown":
        p.sendAgainMs = now + Math.max(NOTICE_RETRY_MS_MIN, m.waitMs);
        break;
      case "refused":
        this.#refused(p, m);
    }
    this.#schedulePlace();
    this.#events.pending();
  }

  #refused(p: Pending, m: wire.Placed): void {
    if (p.state === "charged" && m.code === Code.superseded) {
      this.pending.remove(p); // it was promised, so it has been on the board; a newer tile of this user came after it
    } else if (p.state === "charged" || (passes(m.code, m.waitMs) && p.busy++ < BUSY_RETRIES_MAX)) {
      // What is promised stays promised: this refusal answers a copy that came at a bad moment.
      p.sendAgainMs = this.#world.clock.now() + Math.max(NOTICE_RETRY_MS_MIN, m.waitMs) * (1 + this.#world.random());
    } else {
      this.pending.remove(p);
      this.#events.refused(p, m.code);
    }
  }

  // ---- small things ----

  #setState(s: SessionState): void {
    const before = this.#state;
    this.#state = s;
    if (JSON.stringify(before) !== JSON.stringify(s)) this.#events.state(s);
  }

  #after(name: string, ms: number, fn: () => void): void {
    this.#cancel(name);
    this.#timers.set(
      name,
      this.#world.clock.after(ms, () => {
        this.#timers.delete(name);
        fn();
      }),
    );
  }

  #cancel(name: string): void {
    this.#timers.get(name)?.();
    this.#timers.delete(name);
  }
}
