// The elements of index.html by id; a missing one is a fault of the build and is told at once.

import { t } from "./i18n.ts";

export function element<T extends Element>(id: string, type: { new (): T; readonly prototype: T }): T {
  const e = document.getElementById(id);
  if (!(e instanceof type)) throw new Error(`index.html has no ${type.name} #${id}`);
  return e;
}

/** Sets text only where it changes, so that screen readers and style engines are not woken for nothing. */
export function setText(e: Element, text: string): void {
  if (e.textContent !== text) e.textContent = text;
}

/** Writes the texts of index.html in the language spoken: data-t is the key of a text, data-t-label that of a label. */
export function translate(root: ParentNode): void {
  for (const e of root.querySelectorAll<HTMLElement>("[data-t]")) setText(e, t(e.dataset["t"]!));
  for (const e of root.querySelectorAll<HTMLElement>("[data-t-label]")) {
    const label = t(e.dataset["tLabel"]!);
    e.setAttribute("aria-label", label);
    if (e instanceof HTMLButtonElement) e.title = label;
  }
}
