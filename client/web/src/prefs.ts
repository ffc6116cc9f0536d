// What this browser remembers of a person's choices. Storage may be missing or refuse: then choices last until the page is closed.

import { COLOUR_MODES, type ColourMode } from "./colours.ts";

export interface Prefs {
  language: string; // "" for what the browser says
  grid: boolean;
  heat: boolean;
  symbols: boolean;
  minimap: boolean;
  colours: ColourMode;
  sound: boolean;
  notify: boolean;
}

export const DEFAULT_PREFS: Readonly<Prefs> = {
  language: "", grid: true, heat: false, symbols: false, minimap: true, colours: "painted", sound: false, notify: false,
};

const KEY = "placed.prefs";

/** Reads what was written; what makes no sense is left at its default. */
export function parsePrefs(text: string | null): Prefs {
  const prefs = { ...DEFAULT_PREFS };
  try {
    const read = JSON.parse(text ?? "{}") as Record<string, unknown>;
    for (const [name, value] of Object.entries(DEFAULT_PREFS)) {
      if (typeof read[name] === typeof value) (prefs as Record<string, unknown>)[name] = read[name];
    }
    if (!COLOUR_MODES.includes(prefs.colours)) prefs.colours = "painted";
  } catch {
    // not ours, or damaged
  }
  return prefs;
}

export function loadPrefs(): Prefs {
  try {
    return parsePrefs(localStorage.getItem(KEY));
  } catch {
    return { ...DEFAULT_PREFS };
  }
}

export function savePrefs(prefs: Prefs): void {
  try {
    localStorage.setItem(KEY, JSON.stringify(prefs));
  } catch {
    // private browsing, or full: it works without
  }
}
