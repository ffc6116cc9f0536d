// The page: puts session, stage, placing and the panels together and shows how the user stands.

import { Account } from "./account.ts";
import { fetchBoard, fetchConfig } from "./api.ts";
import { browserClock } from "./clock.ts";
import { translate } from "./dom.ts";
import { Extras } from "./extras.ts";
import type { Point } from "./grid.ts";
import { spoken, t } from "./i18n.ts";
import type { Key } from "./keys.ts";
import { connect } from "./link.ts";
import { Palette } from "./palette.ts";
import { Placing } from "./placing.ts";
import { learnChosen } from "./language.ts";
import { loadPrefs, type Prefs } from "./prefs.ts";
import { Presence, watch } from "./presence.ts";
import { Code } from "./refusals.ts";
import { Session, type SessionState } from "./session.ts";
import type { Settings } from "./settings.ts";
import { Stage } from "./stage.ts";
import { UI } from "./ui.ts";
import { refusalWords, stateWords, timerSpoken, timerWords } from "./words.ts";

const TICK_MS = 250; // of what counts down
/** The states in which a node has said Hello. */
const LINKED: readonly SessionState["kind"][] = ["loading", "catchingUp", "live"];

class Page {
  readonly #session: Session;
  readonly #stage: Stage;
  readonly #ui: UI;
  readonly #palette = new Palette();
  readonly #placing: Placing;
  readonly #extras: Extras;
  readonly #account = new Account(() => this.#session.connect(), (user) => this.#ui.toast(t("account.welcome", { user })));
  #tick = 0; // the interval of what counts down, 0 for none
  #liveUntil: Date | null = null; // when the board on show was last live; null while it is, or before it ever was
  #linked = false; // the node has said Hello
  #onlineAsked = 0; // changes whenever an older answer about the people online no longer counts
  #leftMs = 0; // of the cooldown when it was shown last

  constructor(prefs: Prefs) {
    translate(document);
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
          this.#onlineAsked++; // an answer that is still under way is older
          this.#ui.setOnline(people);
          document.documentElement.dataset["divergences"] = String(this.#session.divergences);
        },
        pending: () => this.#showPending(),
        accepted: (p) => this.#ui.say(t("place.done", { colour: this.#palette.name(p.colour), x: String(p.x), y: String(p.y) })),
        refused: (_, code) => this.#refuse(code),
        placedElsewhere: (m) => this.#ui.toast(t("place.elsewhere", { x: String(m.x), y: String(m.y) })),
      },
    );
    this.#stage = new Stage(this.#session.board, {
      moved: (hover, middle) => this.#moved(hover, middle),
      tap: (tap, tile) => {
        this.#extras.follow(false);
        this.#placing.tap(tap, tile);
      },
      key: (key) => this.#key(key),
      follow: (chunks) => this.#session.follow(chunks),
    });
    this.#ui = new UI({
      retry: () => this.#session.retryNow(),
      zoom: (step) => this.#stage.zoom(step),
      place: () => this.#placing.press(),
      closeTile: () => this.#placing.select(null),
    });
    this.#placing = new Placing(this.#session, this.#stage, this.#palette, this.#ui, (code) => this.#refuse(code));
    this.#extras = new Extras(this.#session, this.#stage, this.#palette, this.#ui, prefs, () => this.relabel());
    this.#stage.onFrame = () => this.#extras.frame();
    this.#session.board.onChange = (chunk, tiles) => {
      this.#stage.renderer.markChunk(chunk, tiles);
      this.#extras.changed(chunk, tiles);
      this.#placing.changed(chunk);
    };
    this.#palette.onChange = () => {
      this.#placing.aim();
      this.#placing.show();
      this.#stage.draw();
    };
    watch(new Presence(browserClock, () => Date.now(), this.#session));
    for (const name of ["online", "offline", "visibilitychange"]) {
      window.addEventListener(name, () => this.#showState(this.#session.state), true);
    }
    this.#session.connect();
    fetchConfig().then(
      (c) => this.#account.setConfig(c),
      () => {}, // the session tells what is wrong
    );
  }

  // ---- what the session tells ----

  #showState(s: SessionState): void {
    if (s.kind === "live" || s.kind === "catchingUp") this.#liveUntil = null;
    else if (this.#session.hasBoard) this.#liveUntil ??= new Date();
    const old = this.#session.hasBoard && this.#liveUntil !== null ? this.#liveUntil : null;
    const boardTime = old === null ? "" : old.toLocaleTimeString(spoken(), { hour: "2-digit", minute: "2-digit" });
    this.#ui.setStatus(s.kind, stateWords(s, browserClock.now(), boardTime, navigator.onLine), s.kind === "waiting");
    this.#showOnline(LINKED.includes(s.kind));
    const scene = this.#stage.renderer.scene;
    if (scene.ready !== this.#session.hasBoard) {
      scene.ready = this.#session.hasBoard;
      this.#stage.draw();
    }
    this.#showMe();
  }

  /** The number of people goes with the link. A heartbeat brings it, but the first one only after an interval: until then the node is asked. */
  #showOnline(linked: boolean): void {
    if (linked === this.#linked) return;
    this.#linked = linked;
    const asked = ++this.#onlineAsked;
    this.#ui.setOnline(0);
    if (!linked) return;
    fetchConfig().then(
      (c) => {
        if (asked === this.#onlineAsked) this.#ui.setOnline(c.online);
      },
      () => {}, // the heartbeat will tell
    );
  }

  #takeSettings(s: Settings): void {
    this.#palette.setEntries(s.palette);
    this.#showBanners(s);
    this.#stage.setSettings(s);
    this.#extras.setSettings(s);
    this.#placing.within(s.width, s.height);
    this.#stage.moved();
    this.#showMe();
  }

  #showBanners(s: Settings): void {
    this.#ui.setBanners(s.announcement, s.loading ? t("banner.loading") : s.frozen ? t("banner.frozen") : "");
  }

  #showMe(): void {
    this.#account.show(this.#session.user);
    this.#showTimer();
    this.#keepTicking();
  }

  #showTimer(): void {
    const { armed, cooldown, settings, pending, user, bannedUntilMs } = this.#session;
    const unsettled = pending.unsettled;
    const leftMs = cooldown.leftMs();
    const timer = timerWords(
      {
        signedIn: user !== "",
        connected: LINKED.includes(this.#session.state.kind) && (user === "" || cooldown.known),
        frozen: settings?.frozen === true || settings?.loading === true,
        bannedUntilMs,
        pending: unsettled === null ? null : unsettled.state === "charged" ? "charged" : "sent",
        armed: armed !== null,
        leftMs,
      },
      Date.now(),
    );
    const whole = Math.max(settings?.cooldownMs ?? 0, leftMs, 1);
    this.#ui.setTimer(timer, timer.state === "waiting" ? leftMs / whole : 0);
    this.#placing.setTimer(timer);
    const words = timerSpoken(this.#leftMs, leftMs);
    if (words !== "") this.#ui.say(words);
    if (this.#leftMs > 0 && leftMs === 0) this.#extras.bell.ring();
    this.#leftMs = leftMs;
  }

  /** Counts down while there is something to count. */
  #keepTicking(): void {
    const needed = this.#session.cooldown.leftMs() > 0 || this.#session.state.kind === "waiting";
    if (needed && this.#tick === 0) {
      this.#tick = window.setInterval(() => this.#showState(this.#session.state), TICK_MS);
    } else if (!needed && this.#tick !== 0) {
      clearInterval(this.#tick);
      this.#tick = 0;
    }
  }

  #showPending(): void {
    const { armed, pending } = this.#session;
    const scene = this.#stage.renderer.scene;
    scene.pending = pending.all.map(({ x, y, colour }) => ({ x, y, colour }));
    scene.armed = armed;
    this.#stage.canvas.dataset["pending"] = String(pending.all.length);
    this.#showTimer();
    this.#stage.draw();
  }

  #refuse(code: number | "early" | "unsettled"): void {
    this.#ui.toast(refusalWords(code, this.#session.cooldown.leftMs()));
    if (code === Code.signIn) this.#account.open();
  }

  /** Says everything anew, in the language spoken. */
  relabel(): void {
    translate(document);
    this.#palette.relabel();
    this.#extras.menu.relabel();
    const s = this.#session.settings;
    if (s !== null) this.#showBanners(s);
    this.#showState(this.#session.state);
    this.#placing.show();
  }

  // ---- what hands do ----

  #moved(hover: Point | null, middle: Point): void {
    this.#placing.aim();
    const { zoom } = this.#stage.camera.view;
    this.#ui.setCoords(this.#placing.cursor ?? hover ?? this.#placing.selected ?? (this.#stage.closeEnough ? middle : null), zoom);
    this.#extras.moved();
  }

  #key(key: Key): void {
    switch (key.kind) {
      case "zoomIn":
        return this.#stage.zoom("in");
      case "zoomOut":
        return this.#stage.zoom("out");
      case "move":
        return this.#placing.steer(key.dx, key.dy);
      case "colour":
        return this.#palette.pick(key.index);
      case "enter":
        return this.#placing.act();
      case "inspect":
        return this.#placing.inspect();
      case "escape":
        this.#extras.follow(false);
        this.#placing.unwind();
        return;
      case "menu":
        return this.#extras.menu.open();
      case "grid":
      case "heat":
        return this.#extras.toggle(key.kind);
      case "nextWrong":
        return this.#extras.tracing.nextWrong();
      case "pan": // the input does that itself
    }
  }
}

/** A language that takes longer to come than this is spoken later. */
const LANGUAGE_MS_MAX = 1500;

const prefs = loadPrefs();
const learnt = learnChosen(prefs.language);
await Promise.race([learnt, new Promise((resolve) => setTimeout(resolve, LANGUAGE_MS_MAX))]);
const page = new Page(prefs);
void learnt.then(() => page.relabel());
