// Tells that the next tile is ready: a sound, a notification when the page is not looked at, both by choice only. Of several tabs
// one rings: the first to write that it did.

import { t } from "./i18n.ts";

const KEY = "placed.rang";
/** A bell that rang in another tab so shortly before was this one. */
const SAME_MS = 4000;
const NOTICE_MS = 8000;

/** What the bell needs to remember across tabs. */
export interface Shelf {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
}

/** Whether this tab may ring now; from now on no other may for a moment. */
export function mayRing(shelf: Shelf, nowMs: number): boolean {
  try {
    const last = Number(shelf.getItem(KEY) ?? "0");
    if (nowMs - last >= 0 && nowMs - last < SAME_MS) return false;
    shelf.setItem(KEY, String(nowMs));
  } catch {
    // without storage every tab rings
  }
  return true;
}

export class Bell {
  sound = false;
  notify = false;
  #audio: AudioContext | null = null;

  /** Browsers let a page make sounds only after somebody has touched it: call this from a gesture. */
  prepare(): void {
    try {
      this.#audio ??= new AudioContext();
      void this.#audio.resume();
    } catch {
      // no sound here
    }
  }

  /** Asks whether notifications may be shown; from a gesture only. */
  async ask(): Promise<boolean> {
    if (typeof Notification === "undefined") return false;
    try {
      return (await Notification.requestPermission()) === "granted";
    } catch {
      return false;
    }
  }

  /** The next tile is ready. Tabs that are looked at come first. */
  ring(): void {
    if (!this.sound && !this.notify) return;
    setTimeout(() => void this.#alone(() => this.#ring()), (document.hidden ? 250 : 0) + Math.random() * 150);
  }

  /** Runs fn in one tab only: under a lock where there are any (not on plain HTTP in a LAN), and by what was written last. */
  async #alone(fn: () => void): Promise<void> {
    const once = () => {
      if (mayRing(localStorage, Date.now())) fn();
    };
    if (navigator.locks === undefined) once();
    else await navigator.locks.request(KEY, once);
  }

  #ring(): void {
    if (this.sound) this.#chime();
    if (!this.notify || !document.hidden || typeof Notification === "undefined" || Notification.permission !== "granted") return;
    try {
      const n = new Notification(t("app.title"), { body: t("bell.body"), tag: "placed-ready", icon: new URL("icon-192.png", import.meta.url).href });
      n.onclick = () => {
        window.focus();
        n.close();
      };
      setTimeout(() => n.close(), NOTICE_MS);
    } catch {
      // phones show notifications from service workers only; the sound and the title tell
    }
  }

  #chime(): void {
    const audio = this.#audio;
    if (audio === null) return;
    const at = audio.currentTime;
    for (const [i, frequency] of [659.25, 880].entries()) {
      const tone = audio.createOscillator();
      const loudness = audio.createGain();
      const begin = at + i * 0.14;
      tone.frequency.value = frequency;
      loudness.gain.setValueAtTime(0, begin);
      loudness.gain.linearRampToValueAtTime(0.18, begin + 0.02);
      loudness.gain.exponentialRampToValueAtTime(0.001, begin + 0.5);
      tone.connect(loudness).connect(audio.destination);
      tone.start(begin);
      tone.stop(begin + 0.55);
    }
  }
}
