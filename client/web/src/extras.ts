// What people may switch on beside the board itself: small map, heat, the camera that follows the action, links, the picture,
// the bell; and the menu that they are switched with.

import { FOLLOW_EVERY_MS, HeatLayer } from "./action.ts";
import { formatHash, parseHash, randomTile, restOfHash } from "./address.ts";
import { fetchOverview, overviewURL } from "./api.ts";
import { Bell } from "./bell.ts";
import { ZOOM_CLOSE } from "./camera.ts";
import { browserClock } from "./clock.ts";
import { display, word } from "./colours.ts";
import type { Point } from "./grid.ts";
import { Heat } from "./heat.ts";
import { t } from "./i18n.ts";
import { learnChosen } from "./language.ts";
import { Menu } from "./menu.ts";
import { Minimap } from "./minimap.ts";
import { Overview } from "./overview.ts";
import type { Palette } from "./palette.ts";
import { savePrefs, type Prefs } from "./prefs.ts";
import { download, saveBoard } from "./save.ts";
import type { Session } from "./session.ts";
import { sentWhole, type Settings } from "./settings.ts";
import type { Stage } from "./stage.ts";
import { Tracing } from "./tracing.ts";
import type { UI } from "./ui.ts";

/** The address follows the view when it has rested for so long. */
const ADDRESS_PAUSE_MS = 400;
/** Closer than this the camera that follows the action does not need to go. */
const ZOOM_FOLLOW = 12;

export class Extras {
  readonly bell = new Bell();
  readonly heat = new Heat();
  readonly menu: Menu;
  readonly tracing: Tracing;
  readonly #session: Session;
  readonly #stage: Stage;
  readonly #palette: Palette;
  readonly #ui: UI;
  readonly #prefs: Prefs;
  readonly #relabel: () => void;
  readonly #minimap: Minimap;
  readonly #heatLayer = new HeatLayer(this.heat);
  readonly #overview = new Overview({
    fetch: fetchOverview,
    after: (ms, fn) => browserClock.after(ms, fn),
    wanted: () => !document.hidden,
    show: (picture) => this.#showOverview(picture),
  });
  #words: number[] = []; // of the palette as shown
  #settings: Settings | null = null;
  #addressTimer = 0;
  #addressed = false; // an address is followed, or written: the view is somebody's choice
  #followTimer = 0;

  /** relabel is called when another language is spoken. */
  constructor(session: Session, stage: Stage, palette: Palette, ui: UI, prefs: Prefs, relabel: () => void) {
    this.#session = session;
    this.#stage = stage;
    this.#palette = palette;
    this.#ui = ui;
    this.#prefs = prefs;
    this.#relabel = relabel;
    this.#minimap = new Minimap(session.board, stage.camera, (x, y) => {
      this.follow(false);
      stage.goTo({ x, y, zoom: stage.camera.view.zoom });
    });
    stage.renderer.layers.push((ctx, camera, s) => this.#heatLayer.draw(ctx, camera, s));
    this.menu = new Menu(prefs, {
      size: () => this.#settings,
      goTo: (tile) => this.goTo(tile),
      random: () => this.random(),
      copyLink: () => void this.copyLink(),
      save: () => void this.#save(),
      template: () => this.tracing.open(),
      follow: (on) => this.follow(on),
      chosen: (name) => this.#chosen(name),
    });
    this.tracing = new Tracing(session, stage, ui, {
      goTo: (x, y, colour) => {
        if (colour !== null && colour !== palette.colour) palette.pick(colour);
        this.goTo({ x, y });
      },
      copy: (link) => void this.#copy(link),
    });
    window.addEventListener("hashchange", () => this.#followAddress());
    window.addEventListener("pointerdown", () => this.bell.sound && this.bell.prepare(), { once: true });
    this.#apply();
  }

  /** Takes settings; the first ones decide where the view begins. */
  setSettings(s: Settings): void {
    const first = this.#settings === null;
    this.#settings = s;
    this.#recolour();
    this.tracing.setSettings(s);
    this.#overview.keep(!sentWhole(s));
    if (!first || this.#followAddress(0)) return;
    if (!sentWhole(s)) {
      const at = randomTile(s.width, s.height, Math.random);
      this.#stage.camera.flyTo({ ...at, zoom: 4 }, 0, 0);
    }
  }

  #showOverview(picture: ImageBitmap | null): void {
    const before = this.#stage.renderer.overview;
    this.#stage.renderer.overview = picture;
    this.#stage.overviewScale = picture === null || this.#settings === null ? 0 : Math.max(1, Math.round(this.#settings.width / picture.width));
    this.#minimap.setOverview(picture);
    if (before instanceof ImageBitmap) before.close();
    this.#stage.moved();
  }

  /** Tiles of a chunk have changed; null: all of it, which is no news of a placement. */
  changed(chunk: number, tiles: readonly number[] | null): void {
    if (tiles !== null) this.heat.add(chunk, tiles, performance.now());
    this.#minimap.stale();
  }

  /** Called once per frame; true while something has to be drawn again. */
  frame(): boolean {
    this.#minimap.draw();
    return this.#heatLayer.warm;
  }

  /** The view has moved: the address follows when it rests, without a step in the history. */
  moved(): void {
    clearTimeout(this.#addressTimer);
    if (this.#stage.camera.fitted && !this.#addressed) return;
    this.#addressTimer = window.setTimeout(() => {
      this.#addressed = true;
      const hash = formatHash(this.#stage.camera.view, restOfHash(location.hash));
      if (hash !== location.hash) history.replaceState(history.state, "", hash);
    }, ADDRESS_PAUSE_MS);
  }

  #followAddress(lengthMs = this.#stage.flightMs): boolean {
    const view = parseHash(location.hash);
    if (view === null) return false;
    this.#addressed = true;
    this.#stage.camera.flyTo(view, performance.now(), lengthMs);
    this.#stage.moved();
    return true;
  }

  goTo(tile: Point): void {
    this.follow(false);
    this.#stage.goTo({ x: tile.x + 0.5, y: tile.y + 0.5, zoom: Math.max(ZOOM_CLOSE, this.#stage.camera.view.zoom) });
    this.#ui.say(t("tile.spoken", { x: String(tile.x), y: String(tile.y), colour: this.#palette.name(this.#session.board.colourAt(tile.x, tile.y)) }));
  }

  random(): void {
    if (this.#settings !== null) this.goTo(randomTile(this.#settings.width, this.#settings.height, Math.random));
  }

  async copyLink(): Promise<void> {
    await this.#copy(new URL(formatHash(this.#stage.camera.view, restOfHash(location.hash)), location.href).href);
  }

  async #copy(link: string): Promise<void> {
    try {
      await navigator.clipboard.writeText(link); // there is none on plain HTTP in a LAN
      this.#ui.toast(t("menu.copied"));
    } catch {
      this.#ui.toast(t("menu.copyFailed", { link }));
    }
  }

  async #save(): Promise<void> {
    const s = this.#settings;
    if (s === null) return;
    if (!sentWhole(s)) return download(overviewURL(), "board.png");
    try {
      await saveBoard(this.#session.board, s, this.#words, `board-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}.png`);
      this.#ui.toast(t("menu.saved"));
    } catch (err) {
      this.#ui.toast((err as Error).message);
    }
  }

  /** Moves the view to wherever people paint, until somebody moves it by hand. */
  follow(on: boolean): void {
    clearInterval(this.#followTimer);
    this.#followTimer = 0;
    this.menu.setFollowing(on);
    if (!on) return;
    const go = () => {
      if (document.hidden) return;
      const { x, y, zoom } = this.#stage.camera.view;
      const at = this.heat.hottest({ x, y }, performance.now());
      if (at !== null) this.#stage.goTo({ ...at, zoom: Math.max(ZOOM_FOLLOW, zoom) });
      return at;
    };
    if (go() === null) this.#ui.toast(t("menu.followed"));
    this.#followTimer = window.setInterval(go, FOLLOW_EVERY_MS);
  }

  /** Switches what a key switches. */
  toggle(name: "grid" | "heat"): void {
    this.#prefs[name] = !this.#prefs[name];
    this.#chosen(name);
    this.menu.show();
    this.#ui.toast(t(this.#prefs[name] ? "menu.on" : "menu.off", { what: t(`menu.${name}`) }));
  }

  #chosen(name: keyof Prefs): void {
    if (name === "sound" && this.#prefs.sound) this.bell.prepare();
    if (name === "notify" && this.#prefs.notify) {
      void this.bell.ask().then((granted) => {
        if (granted) return;
        this.#prefs.notify = false;
        this.menu.show();
        this.#ui.toast(t("menu.notifyDenied"));
        this.#apply();
      });
    }
    if (name === "language") void learnChosen(this.#prefs.language).then(() => this.#relabel());
    this.#apply();
  }

  #apply(): void {
    const p = this.#prefs;
    savePrefs(p);
    this.bell.sound = p.sound;
    this.bell.notify = p.notify;
    this.#heatLayer.on = p.heat;
    this.#stage.renderer.scene.grid = p.grid;
    this.#stage.renderer.scene.symbols = p.symbols;
    this.#stage.renderer.setMode(p.colours);
    this.#palette.setMode(p.colours, p.symbols);
    this.#minimap.show(p.minimap);
    this.#recolour();
    this.#stage.draw();
  }

  #recolour(): void {
    const s = this.#settings;
    if (s === null) return;
    this.#words = s.palette.map((e) => word(display(e.rgb, this.#prefs.colours)));
    this.#minimap.setSettings(s, this.#words);
  }
}
