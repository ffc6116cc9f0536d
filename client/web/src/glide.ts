// Inertia: a board that was let go of in motion glides on and comes to rest. Velocities are px per millisecond.

/** Only what the pointer did this shortly before it was lifted counts: who holds still before lifting wants no glide. */
const SAMPLE_MS = 80;
const SPEED_MIN = 0.15; // px/ms at the start
const SPEED_MAX = 6;
const SPEED_END = 0.02;
/** The speed falls to 1/e in this time. */
const FADE_MS = 320;
const STEP_MS_MAX = 50;

export class Glide {
  #samples: { px: number; py: number; ms: number }[] = [];
  #vx = 0;
  #vy = 0;
  #stepMs: number | null = null;

  /** The pointer that pans is here. */
  sample(px: number, py: number, ms: number): void {
    this.#samples.push({ px, py, ms });
    while (this.#samples.length > 2 && ms - this.#samples[0]!.ms > SAMPLE_MS) this.#samples.shift();
  }

  /** The pointer is lifted: true when the board glides on. */
  release(ms: number): boolean {
    const samples = this.#samples.filter((s) => ms - s.ms <= SAMPLE_MS);
    this.stop();
    const [first, last] = [samples[0], samples.at(-1)];
    if (first === undefined || last === undefined || last.ms <= first.ms) return false;
    const vx = (last.px - first.px) / (last.ms - first.ms);
    const vy = (last.py - first.py) / (last.ms - first.ms);
    const speed = Math.hypot(vx, vy);
    if (speed < SPEED_MIN) return false;
    const scale = Math.min(1, SPEED_MAX / speed);
    this.#vx = vx * scale;
    this.#vy = vy * scale;
    return true;
  }

  stop(): void {
    this.#samples = [];
    this.#vx = this.#vy = 0;
    this.#stepMs = null;
  }

  /** How far the board has glided since the last step, in px; null at rest. */
  step(ms: number): { dx: number; dy: number } | null {
    if (this.#vx === 0 && this.#vy === 0) return null;
    const passed = this.#stepMs === null ? 16 : Math.max(0, Math.min(STEP_MS_MAX, ms - this.#stepMs));
    this.#stepMs = ms;
    const fade = Math.exp(-passed / FADE_MS);
    const [dx, dy] = [this.#vx * FADE_MS * (1 - fade), this.#vy * FADE_MS * (1 - fade)];
    this.#vx *= fade;
    this.#vy *= fade;
    if (Math.hypot(this.#vx, this.#vy) < SPEED_END) this.stop();
    return { dx, dy };
  }
}
