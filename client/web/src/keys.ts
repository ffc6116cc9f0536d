// What the keys of the board mean. Movement goes by the place of a key, so that W, A, S, D lie under the same fingers on every
// layout; letters go by what they print.

export type Key =
  | { readonly kind: "enter" | "escape" | "zoomIn" | "zoomOut" | "inspect" | "grid" | "heat" | "menu" | "pan" | "nextWrong" }
  | { readonly kind: "move"; readonly dx: number; readonly dy: number } // of the cursor, in tiles
  | { readonly kind: "colour"; readonly index: number };

/** What is printed on the keys of the first colours, in the order of the palette. */
export const COLOUR_KEYS = "1234567890rtyuop";

/** How far the cursor moves with Shift, in tiles. */
const STRIDE = 10;

const ARROWS: Readonly<Record<string, readonly [number, number]>> = {
  ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1],
};

interface Pressed {
  readonly code: string;
  readonly key: string;
  readonly shiftKey: boolean;
}

/** The meaning of a key; steered: arrows steer the cursor, otherwise they pan. Null for keys of no meaning. */
export function keyOf(e: Pressed, steered: boolean): Key | null {
  const arrow = ARROWS[e.code];
  if (arrow !== undefined) {
    const stride = e.shiftKey ? STRIDE : 1;
    return steered ? { kind: "move", dx: arrow[0] * stride, dy: arrow[1] * stride } : { kind: "pan" };
  }
  if (["KeyW", "KeyA", "KeyS", "KeyD"].includes(e.code)) return { kind: "pan" };
  const colour = e.key.length === 1 ? COLOUR_KEYS.indexOf(e.key.toLowerCase()) : -1;
  if (colour >= 0) return { kind: "colour", index: colour };
  switch (e.key.toLowerCase()) {
    case "enter":
      return { kind: "enter" };
    case "escape":
      return { kind: "escape" };
    case "+":
    case "=":
      return { kind: "zoomIn" };
    case "-":
      return { kind: "zoomOut" };
    case "i":
      return { kind: "inspect" };
    case "g":
      return { kind: "grid" };
    case "h":
      return { kind: "heat" };
    case "n":
      return { kind: "nextWrong" };
    case "m":
      return { kind: "menu" };
    default:
      return null;
  }
}
