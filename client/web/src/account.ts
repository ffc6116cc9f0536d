// The dialog for signing in and out, by the way that the server's configuration names: a chosen name, an invite, or elsewhere.

import { Refused, signIn, signInByInvite, signOut, type Config } from "./api.ts";
import { element, setText } from "./dom.ts";
import { t } from "./i18n.ts";
import { isNamed, userWords } from "./words.ts";

const INVITE = /^#invite=([\w.~%-]+)/;

/** The code of the problem that an invite is nobody's yet. */
const NAME_NEEDED = "invite_name";

function errorWords(err: unknown): string {
  return err instanceof TypeError ? t("error.unreachable") : (err as Error).message;
}

export class Account {
  readonly #button = element("account", HTMLButtonElement);
  readonly #dialog = element("account-dialog", HTMLDialogElement);
  readonly #form = element("sign-in", HTMLFormElement);
  readonly #name = element("name", HTMLInputElement);
  readonly #invite = element("invite", HTMLInputElement);
  readonly #text = element("account-text", HTMLElement);
  readonly #error = element("account-error", HTMLElement);
  readonly #signOut = element("sign-out", HTMLButtonElement);
  readonly #elsewhere = element("sign-in-elsewhere", HTMLAnchorElement);
  readonly #submit = element("sign-in-submit", HTMLButtonElement);
  readonly #changed: () => void;
  readonly #welcome: (user: string) => void;
  #user = "";
  #auth = "open";

  /** changed is called after signing in or out: the session has to connect anew. welcome is told who an invite signed in. */
  constructor(changed: () => void, welcome: (user: string) => void) {
    this.#changed = changed;
    this.#welcome = welcome;
    this.#button.addEventListener("click", () => this.open());
    element("account-cancel", HTMLButtonElement).addEventListener("click", () => this.#dialog.close());
    this.#dialog.addEventListener("click", (e) => {
      if (e.target === this.#dialog) this.#dialog.close(); // the backdrop
    });
    this.#form.addEventListener("submit", (e) => {
      e.preventDefault();
      this.#signIn();
    });
    this.#signOut.addEventListener("click", () => void this.#try(signOut));
    this.show("");
    this.setConfig({ auth: "open", signInURL: "", online: 0 }); // until the server has said how
    this.#takeInvite();
  }

  /** Takes how people sign in. */
  setConfig(c: Config): void {
    this.#auth = c.auth;
    const here = c.auth === "open" || c.auth === "invite";
    for (const e of this.#form.querySelectorAll<HTMLElement>("[data-auth]")) e.hidden = !e.dataset["auth"]!.split(" ").includes(c.auth);
    this.#elsewhere.hidden = here || c.signInURL === "";
    if (c.signInURL !== "") this.#elsewhere.href = c.signInURL;
    this.#submit.hidden = !here;
  }

  /**
   * An invite's link signs in whoever has used it before; at its first use the dialog asks for a name. The address forgets it at
   * once, so that nobody copies it by accident.
   */
  #takeInvite(): void {
    const m = INVITE.exec(location.hash);
    if (m === null) return;
    this.#invite.value = m[1]!;
    history.replaceState(history.state, "", location.pathname + location.search);
    void this.#useInvite(m[1]!);
  }

  /** Tries the invite without a name: only one that is nobody's yet needs one, and that uses nothing up. */
  async #useInvite(invite: string): Promise<void> {
    try {
      const user = await signInByInvite(invite, "");
      this.#changed();
      this.#welcome(user);
    } catch (err) {
      this.open();
      if (!(err instanceof Refused && err.code === NAME_NEEDED)) this.#error.textContent = errorWords(err);
    }
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
    this.#signOut.hidden = !named || (this.#auth !== "open" && this.#auth !== "invite");
    const how = this.#auth === "open" ? "account.choose" : this.#auth === "invite" ? "account.byInvite" : "account.elsewhere";
    setText(this.#text, named ? t(this.#auth === "open" ? "account.you" : "account.youAre", { user: this.#user }) : t(how));
    this.#name.value = "";
    if (!this.#dialog.open) this.#dialog.showModal();
    (this.#auth === "invite" && this.#invite.value === "" ? this.#invite : this.#name).focus();
  }

  #signIn(): void {
    const name = this.#name.value.trim();
    const invite = this.#invite.value.trim();
    if (this.#auth === "invite") {
      if (invite === "") this.#error.textContent = t("account.inviteMissing");
      else void this.#try(async () => this.#welcome(await signInByInvite(invite, name)));
    } else if (name === "") {
      this.#error.textContent = t("account.missing");
    } else {
      void this.#try(() => signIn(name));
    }
  }

  async #try(action: () => Promise<void>): Promise<void> {
    this.#error.textContent = "";
    this.#form.inert = true;
    try {
      await action();
      this.#dialog.close();
      this.#changed();
    } catch (err) {
      this.#error.textContent = errorWords(err);
    } finally {
      this.#form.inert = false;
    }
  }
}
