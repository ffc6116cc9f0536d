// The elements of index.html by id; a missing one is a fault of the build and is told at once.

export function element<T extends Element>(id: string, type: { new (): T; readonly prototype: T }): T {
  const e = document.getElementById(id);
  if (!(e instanceof type)) throw new Error(`index.html has no ${type.name} #${id}`);
  return e;
}

/** Sets text only where it changes, so that screen readers and style engines are not woken for nothing. */
export function setText(e: Element, text: string): void {
  if (e.textContent !== text) e.textContent = text;
}
