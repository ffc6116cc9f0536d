// The hashes against vectors that the Go tests write.

import assert from "node:assert/strict";
import { test } from "node:test";
import { sequenceHash, tileHash, tilesHash, wordText } from "../src/hash.ts";
import { unpackImage } from "../src/wire.ts";
import { bytesOf, testdata } from "./support.ts";

interface Vector {
  of: "tile" | "sequence" | "chunk";
  x?: number;
  y?: number;
  colour?: number;
  chunk?: number;
  sequence?: string;
  width?: number;
  hi: number;
  lo: number;
}

const vectors = testdata<Vector[]>("hashes.json");

/** The image that the golden messages use at a width. */
function goldenImage(width: number): Uint8Array {
  const golden = testdata<{ type: string; value: { colourWidth?: number; chunks: { image: string }[] } }[]>("golden.json");
  const body = golden.find((g) => g.type === "board" && g.value.colourWidth === width && g.value.chunks.length > 0);
  return unpackImage(bytesOf(body!.value.chunks[0]!.image), width === 8);
}

for (const kind of ["tile", "sequence", "chunk"] as const) {
  test(`hashes of a ${kind} are those of Go`, () => {
    const list = vectors.filter((v) => v.of === kind);
    assert.ok(list.length > 0);
    for (const v of list) {
      const got =
        kind === "tile" ? tileHash(v.x ?? 0, v.y ?? 0, v.colour ?? 0)
        : kind === "sequence" ? sequenceHash(v.chunk ?? 0, Number(v.sequence))
        : tilesHash(v.chunk ?? 0, goldenImage(v.width!));
      assert.equal(wordText(got), wordText(v), JSON.stringify(v));
    }
  });
}
