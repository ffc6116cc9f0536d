// The texts of the page in the language of the person in front of it: flat tables from key to text, English built in, the others
// fetched from this server when they are wanted. {name} in a text is replaced; a key with forms by number is written as
// key.one, key.few, key.many, key.other, as the language has them.

import english from "../lang/en.json";

export type Table = Readonly<Record<string, string>>;

/** The languages that the page speaks, by their codes; the first is built in. */
export const LANGUAGES = ["en", "pl", "es", "de", "fr"] as const;
export type Language = (typeof LANGUAGES)[number];

let language: Language = "en";
let table: Table = english;
let plurals = new Intl.PluralRules("en");

/** The language that is spoken now, for dates and numbers. */
export function spoken(): Language {
  return language;
}

/** Speaks another language from now on. */
export function speak(code: Language, texts: Table): void {
  language = code;
  table = texts;
  plurals = new Intl.PluralRules(code);
}

/** The first of the wanted languages (as navigator.languages has them) that the page speaks. */
export function choose(wanted: readonly string[]): Language {
  for (const w of wanted) {
    const code = w.toLowerCase().split("-")[0];
    const found = LANGUAGES.find((l) => l === code);
    if (found !== undefined) return found;
  }
  return "en";
}

/** What a language is called by those who speak it. */
export const LANGUAGE_NAMES: Readonly<Record<Language, string>> = { en: "English", pl: "Polski", es: "Español", de: "Deutsch", fr: "Français" };

/** Fetches a language's table from this server and speaks it; stays with what is spoken when there is none to be had. */
export async function learn(code: Language): Promise<void> {
  if (code === "en") return speak("en", english);
  const r = await fetch(new URL(`lang/${code}.json`, import.meta.url));
  if (r.ok) speak(code, (await r.json()) as Table);
}

/** A text; the number n decides its form where it has several. English stands in for what a table lacks. */
export function t(key: string, values: Readonly<Record<string, string | number>> = {}): string {
  const n = values["n"];
  const form = typeof n === "number" ? `${key}.${plurals.select(n)}` : key;
  const text = table[form] ?? table[`${key}.other`] ?? table[key] ?? (english as Table)[form] ?? (english as Table)[`${key}.other`] ?? (english as Table)[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (_, name: string) => {
    const v = values[name];
    return v === undefined ? "" : typeof v === "number" ? v.toLocaleString(language) : v;
  });
}

/** The name of a colour: those of the usual palette in the language spoken, others as the board calls them. */
export function colourName(name: string): string {
  return table[`colour.${name}`] ?? name;
}
