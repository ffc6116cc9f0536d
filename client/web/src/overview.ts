// The overview of a board too large to be sent whole: a picture of it in small, fetched again while somebody looks at it from afar.

/** A picture is fetched again after so long, if it is on show. */
export const OVERVIEW_EVERY_MS = 10_000;
/** After a failure. */
const RETRY_MS = 3000;

export interface OverviewWorld {
  fetch(): Promise<ImageBitmap>;
  after(ms: number, fn: () => void): () => void;
  /** Whether the overview is on show: the tiles in view are not all followed. */
  wanted(): boolean;
  /** A picture has come; null: it is not needed any more. */
  show(picture: ImageBitmap | null): void;
}

export class Overview {
  readonly #world: OverviewWorld;
  #on = false;
  #run = 0; // the number of the run; answers to an older one are dropped
  #cancel: () => void = () => {};

  constructor(world: OverviewWorld) {
    this.#world = world;
  }

  /** Keeps an overview, or lets go of it. */
  keep(on: boolean): void {
    if (on === this.#on) return;
    this.#on = on;
    this.#run++;
    this.#cancel();
    if (on) this.#fetch(true);
    else this.#world.show(null);
  }

  #fetch(first: boolean): void {
    const run = this.#run;
    const again = (ms: number, stillFirst: boolean) => {
      if (run === this.#run) this.#cancel = this.#world.after(ms, () => this.#fetch(stillFirst));
    };
    if (!first && !this.#world.wanted()) return again(OVERVIEW_EVERY_MS, false);
    this.#world.fetch().then(
      (picture) => {
        if (run !== this.#run) return picture.close();
        this.#world.show(picture);
        again(OVERVIEW_EVERY_MS, false);
      },
      () => again(RETRY_MS, first),
    );
  }
}
