// A node in a few lines for the figures: it greets, answers subscriptions and sends frames of random tiles, so that what is measured
// is the page and not a server on the same cores. See docs/protocol.md for the bytes.

const text = new TextEncoder();

class Writer {
  #bytes = [];
  u8(v) {
    this.#bytes.push(v & 255);
    return this;
  }
  u16(v) {
    return this.u8(v).u8(v >> 8);
  }
  u64(lo, hi) {
    for (const half of [lo, hi]) for (let i = 0; i < 4; i++) this.u8(half >>> (8 * i));
    return this;
  }
  varint(v) {
    for (; v >= 128; v = Math.floor(v / 128)) this.u8((v % 128) | 128);
    return this.u8(v);
  }
  text(s) {
    const b = text.encode(s);
    this.varint(b.length);
    for (const v of b) this.u8(v);
    return this;
  }
  done() {
    return Buffer.from(this.#bytes);
  }
}

/** Numbers in [0, 1) that a seed decides. */
function seeded(seed) {
  let s = seed >>> 0;
  return () => {
    s = (s + 0x6d2b79f5) >>> 0;
    let t = Math.imul(s ^ (s >>> 15), s | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The board body of a board whose every chunk is painted. */
export function boardBody(width, height) {
  const random = seeded(1);
  const [cols, rows] = [Math.ceil(width / 50), Math.ceil(height / 50)];
  const body = Buffer.alloc(44 + cols * rows * 1260);
  body.write("PLCD");
  body.writeUInt8(1, 4);
  body.writeUInt8(4, 5);
  body.writeUInt32LE(7, 8);
  body.writeUInt32LE(width, 32);
  body.writeUInt32LE(height, 36);
  body.writeUInt32LE(cols * rows, 40);
  for (let row = 0, at = 44; row < rows; row++) {
    for (let col = 0; col < cols; col++, at += 1260) {
      body.writeUInt16LE((row << 8) | col, at);
      body.writeUInt32LE(2500, at + 2);
      for (let i = 0; i < 1250; i++) body[at + 10 + i] = random() * 256;
    }
  }
  return body;
}

/** Speaks to a page over a routed websocket: `rate` placements a second, spread over the chunks that it has subscribed to. */
export class FakeNode {
  rate = 0;
  #settings;
  #whole;
  #rect = null;
  #tick = 10;
  #random = seeded(2);
  #timer = null;

  constructor(width, height) {
    const palette = Array.from({ length: 16 }, (_, i) => ({ name: `c${i}`, rgb: (i * 0x111111) & 0xffffff, closed: false }));
    this.#settings = JSON.stringify({ version: 1, width, height, palette, cooldown_ms: 300_000, region_size: 100, frozen: false, protected: [], announcement: "", state: "open" });
    this.#whole = width * height <= 4_000_000;
    this.#rect = [0, 0, Math.ceil(width / 50), Math.ceil(height / 50)];
  }

  attach(socket) {
    socket.send(new Writer().u8(0x80).varint(1).u64(7, 0).u64(9, 0).varint(this.#tick).varint(1_790_000_000_000).varint(60_000).u8(1).varint(1).varint(0).text("ann").text(this.#settings).done());
    socket.onMessage((m) => {
      if (m[0] !== 1) return;
      if (!this.#whole) this.#rect = rectOf(m);
      const base = new Writer().u8(0x81).varint(this.#tick).u8(0);
      if (this.#whole) {
        const ids = chunks(this.#rect);
        base.varint(ids.length);
        ids.forEach((id, i) => base.varint(id - (ids[i - 1] ?? 0)).varint(2500));
      } else {
        base.varint(0);
      }
      socket.send(base.done());
      this.#timer ??= setInterval(() => this.rate > 0 && socket.send(this.#frame()), 100);
    });
  }

  stop() {
    clearInterval(this.#timer);
  }

  #frame() {
    const ids = chunks(this.#rect);
    const tiles = new Map();
    for (let i = 0; i < this.rate / 10 && ids.length > 0; i++) {
      const id = ids[Math.floor(this.#random() * ids.length)];
      if (!tiles.has(id)) tiles.set(id, []);
      tiles.get(id).push((Math.floor(this.#random() * 2500) << 4) | Math.floor(this.#random() * 16));
    }
    const w = new Writer().u8(0x82).varint(++this.#tick);
    let last = 0;
    for (const [id, list] of [...tiles].sort((a, b) => a[0] - b[0])) {
      const single = list.length === 1;
      w.varint(((id - last) << 1) | (single ? 0 : 1));
      last = id;
      if (!single) w.u8(list.length < 32 ? list.length << 3 : 0);
      if (list.length >= 32) w.varint(list.length);
      for (const t of list) w.u16(t);
    }
    return w.done();
  }
}

function chunks([col, row, cols, rows]) {
  const ids = [];
  for (let r = row; r < row + rows; r++) for (let c = col; c < col + cols; c++) ids.push((r << 8) | c);
  return ids;
}

/** The rectangle of a Subscribe without resume. */
function rectOf(m) {
  const out = [];
  for (let at = 2; out.length < 4; ) {
    let [v, shift] = [0, 0];
    for (; m[at] >= 128; at++, shift += 7) v |= (m[at] & 127) << shift;
    out.push(v | (m[at++] << shift));
  }
  return out;
}
