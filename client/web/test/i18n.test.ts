// The tables of texts: every language says everything that English says, in all forms that it needs, with the same blanks.

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import de from "../lang/de.json";
import en from "../lang/en.json";
import es from "../lang/es.json";
import fr from "../lang/fr.json";
import pl from "../lang/pl.json";
import { choose, colourName, LANGUAGES, LANGUAGE_NAMES, speak, t, type Language, type Table } from "../src/i18n.ts";

const tables: Readonly<Record<Language, Table>> = { en, pl, es, de, fr };
const FORMS = ["zero", "one", "two", "few", "many", "other"];
const baseOf = (key: string) => (FORMS.includes(key.slice(key.lastIndexOf(".") + 1)) ? key.slice(0, key.lastIndexOf(".")) : key);
const bases = (table: Table) => [...new Set(Object.keys(table).filter((k) => !k.startsWith("colour.")).map(baseOf))].sort();
const blanks = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map((m) => m[1]).sort();

afterEach(() => speak("en", en));

test("every language says everything, with the same blanks and in every form that it has", () => {
  for (const code of LANGUAGES) {
    const table = tables[code];
    assert.deepEqual(bases(table), bases(en), code);
    for (const [key, text] of Object.entries(table)) {
      assert.ok(text.trim() === text && text !== "", `${code} ${key}`);
      if (key.startsWith("colour.")) continue;
      const english = (en as Table)[key] ?? (en as Table)[`${baseOf(key)}.other`]!;
      const want = blanks(english);
      assert.deepEqual(blanks(text), want, `${code} ${key}`);
    }
    const needed = new Intl.PluralRules(code).resolvedOptions().pluralCategories;
    for (const key of Object.keys(table).filter((k) => k.endsWith(".one"))) {
      for (const form of needed) assert.ok(table[`${baseOf(key)}.${form}`] !== undefined, `${code} ${baseOf(key)}.${form}`);
    }
    assert.equal(table["lang.name"], LANGUAGE_NAMES[code]);
  }
});

test("numbers take their form, names their language, and English stands in", () => {
  assert.equal(t("status.catchingUp", { n: 1 }), "Catching up: 1 area");
  speak("pl", pl);
  assert.deepEqual([1, 3, 5, 22].map((n) => t("status.catchingUp", { n })), [
    "Nadrabianie: 1 obszar", "Nadrabianie: 3 obszary", "Nadrabianie: 5 obszarów", "Nadrabianie: 22 obszary",
  ]);
  assert.equal(colourName("light green"), "jasnozielony");
  assert.equal(colourName("gold"), "gold", "the board's own name");
  speak("de", { "status.live": "Da" });
  assert.equal(t("status.live"), "Da");
  assert.equal(t("status.loading"), "Loading the board…");
  assert.equal(t("no.such.key"), "no.such.key");
  assert.equal(t("online", { n: 1234567 }), "1.234.567 people are here");
});

test("the language is the first of the browser's that the page speaks", () => {
  assert.equal(choose(["de-AT", "en"]), "de");
  assert.equal(choose(["it", "FR-ca"]), "fr");
  assert.equal(choose(["xx"]), "en");
  assert.equal(choose([]), "en");
});
