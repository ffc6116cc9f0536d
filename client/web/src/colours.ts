// How colours are shown. The board holds indices; what they look like is the viewer's business: as painted, or with what a
// viewer's eyes cannot tell apart moved to where they can (daltonization), or with more contrast. Pure functions of 0xRRGGBB.

export const COLOUR_MODES = ["painted", "protan", "deutan", "tritan", "contrast"] as const;
export type ColourMode = (typeof COLOUR_MODES)[number];

type RGB = readonly [number, number, number];

// What eyes see that lack one kind of cones: linear RGB to linear RGB (Machado, Oliveira and Fernandes 2009, severity 1).
const SIMULATION: Readonly<Record<"protan" | "deutan" | "tritan", readonly RGB[]>> = {
  protan: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deutan: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritan: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};

// Where the part that is not seen goes.
const SHIFT: Readonly<Record<"protan" | "deutan" | "tritan", readonly RGB[]>> = {
  protan: [[0, 0, 0], [0.7, 1, 0], [0.7, 0, 1]],
  deutan: [[1, 0.7, 0], [0, 0, 0], [0, 0.7, 1]],
  tritan: [[1, 0, 0.7], [0, 1, 0.7], [0, 0, 0]],
};

function linear(v: number): number {
  const c = v / 255;
  return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
}

function encoded(v: number): number {
  const c = Math.min(1, Math.max(0, v));
  return Math.round(255 * (c <= 0.0031308 ? c * 12.92 : 1.055 * c ** (1 / 2.4) - 0.055));
}

function times(m: readonly RGB[], [r, g, b]: RGB): RGB {
  const row = (i: number) => m[i]![0] * r + m[i]![1] * g + m[i]![2] * b;
  return [row(0), row(1), row(2)];
}

function split(rgb: number): RGB {
  return [linear(rgb >> 16), linear((rgb >> 8) & 0xff), linear(rgb & 0xff)];
}

function join([r, g, b]: RGB): number {
  return (encoded(r) << 16) | (encoded(g) << 8) | encoded(b);
}

/** What eyes of a kind see of a colour. */
export function simulate(rgb: number, kind: "protan" | "deutan" | "tritan"): number {
  return join(times(SIMULATION[kind], split(rgb)));
}

/** The colour to show for a palette entry. */
export function display(rgb: number, mode: ColourMode): number {
  if (mode === "painted") return rgb;
  const seen = split(rgb);
  if (mode === "contrast") {
    // Away from the middle grey, each by as much as it can take.
    const light = 0.2126 * seen[0] + 0.7152 * seen[1] + 0.0722 * seen[2];
    const factor = light > 0.18 ? 1.35 : 0.55;
    return join([seen[0] * factor, seen[1] * factor, seen[2] * factor]);
  }
  const lost = times(SIMULATION[mode], seen);
  const error: RGB = [seen[0] - lost[0], seen[1] - lost[1], seen[2] - lost[2]];
  const shift = times(SHIFT[mode], error);
  return join([seen[0] + shift[0], seen[1] + shift[1], seen[2] + shift[2]]);
}

/** 0xRRGGBB as CSS. */
export function css(rgb: number): string {
  return "#" + rgb.toString(16).padStart(6, "0");
}

/** 0xRRGGBB as the word of an ImageData, 0xAABBGGRR. */
export function word(rgb: number): number {
  return (0xff000000 | ((rgb & 0xff) << 16) | (rgb & 0xff00) | (rgb >> 16)) >>> 0;
}

/** Whether dark ink reads better on a colour than light ink. */
export function isLight(rgb: number): boolean {
  const [r, g, b] = split(rgb);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18;
}
