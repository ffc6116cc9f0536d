// Which language is spoken: the one that was chosen, else the first of the browser's that the page speaks.

import { choose, LANGUAGES, learn, spoken, type Language } from "./i18n.ts";

/** Learns the chosen language, "" for the browser's; the page says which it is. Never fails: the language spoken stays. */
export async function learnChosen(chosen: string): Promise<void> {
  const code: Language = LANGUAGES.find((l) => l === chosen) ?? choose(navigator.languages);
  try {
    await learn(code);
  } catch {
    // not reachable
  }
  document.documentElement.lang = spoken();
}
