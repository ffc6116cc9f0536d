// The dialog for signing in with a chosen name and for signing out.

import { signIn, signOut } from "./api.ts";
import { element, setText } from "./dom.ts";
import { t } from "./i18n.ts";
import { isNamed, userWords } from "./words.ts";

export class Account {
  readonly #button = element("account", HTMLButtonElement);
  readonly #dialog = element("account-dialog", HTMLDialogElement);
  readonly #form = element("sign-in", HTMLFormElement);
  readonly #name = element("name", HTMLInputElement);
  readonly #text = element("account-text", HTMLElement);
  readonly #error = element("account-error", HTMLElement);
  readonly #signOut = element("sign-out", HTMLButtonElement);
  readonly #changed: () => void;
  #user = "";

  /** changed is called after signing in or out: the session has to connect anew. */
  constructor(changed: () => void) {
    this.#changed = changed;
    this.#button.addEventListener("click", () => this.open());
    element("account-cancel", HTMLButtonElement).addEventListener("click", () => this.#dialog.close());
    this.#dialog.addEventListener("click", (e) => {
      if (e.target === this.#dialog) this.#dialog.close(); // the backdrop
    });
    this.#form.addEventListener("submit", (e) => {
      e.preventDefault();
      const name = this.#name.value.trim();
      if (name === "") this.#error.textContent = t("account.missing");
      else void this.#try(() => signIn(name));
    });
    this.#signOut.addEventListener("click", () => void this.#try(signOut));
    this.show("");
  }

  /** Shows who is signed in; "" for nobody. */
  show(user: string): void {
    this.#user = user;
    this.#button.dataset["user"] = user;
    setText(this.#button, user === "" ? t("account.signIn") : userWords(user));
    this.#button.title = user === "" ? "" : isNamed(user) ? t("account.change") : t("account.chooseTitle");
  }

  open(): void {
    this.#error.textContent = "";
    const named = isNamed(this.#user);
    this.#signOut.hidden = !named;
    setText(this.#text, named ? t("account.you", { user: this.#user }) : t("account.choose"));
    this.#name.value = "";
    this.#dialog.showModal();
    this.#name.focus();
  }

  async #try(action: () => Promise<void>): Promise<void> {
    this.#error.textContent = "";
    this.#form.inert = true;
    try {
      await action();
      this.#dialog.close();
      this.#changed();
    } catch (err) {
      this.#error.textContent = err instanceof TypeError ? t("error.unreachable") : (err as Error).message;
    } finally {
      this.#form.inert = false;
    }
  }
}
