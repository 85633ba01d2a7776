// A shared link (?heard=TOKEN): one large button plays what its sender heard, from the stored trace.

import { displayName } from "../options/option_controls.js";
import { decimal, t } from "../page/translate.js";
import { h, icon } from "../rate/dom.js";
import { parse } from "../timeline/bundle.js";

const PARAM = "heard"; // in the page's address
const TOKEN = /^[\w-]{22}$/;
const [PLAY, STOP] = ["M4 2.5v11l9-5.5z", "M3.5 3.5h9v9h-9z"]; // shapes of the button's picture
const GONE = t("The server no longer has this recording.");
const OFFER = t("Speak its text again? The voice may differ a little.");
const NO_TEXT = t("The link does not carry its text, so it cannot be spoken again.");
const OFFLINE = t("The server does not answer. Press to try again.");

/** The address with the token of a trace to play; without a token, or with an invalid one, only the text is shared. */
export function sharedAddress(address, token) {
  const url = new URL(address);
  if (TOKEN.test(token)) url.searchParams.set(PARAM, token);
  else url.searchParams.delete(PARAM);
  return url.href;
}

export class Shared {
  /** `page` is the Live page. */
  constructor(page) {
    this.page = page;
    this.token = page.params.get(PARAM) ?? "";
    this.button = null;
    this.state = "none"; // none | loading | ready | gone | offline
    this.card = page.root.querySelector(".shared");
    if (!TOKEN.test(this.token)) {
      this.card.remove();
      return;
    }
    this.picture = icon(PLAY);
    this.button = h(
      "button",
      { type: "button", class: "primary shared-play", on: { click: () => this.press() } },
      this.picture,
    );
    this.name = h("p", { class: "shared-name", text: t("Someone shared this speech with you") });
    this.note = h("p", { class: "sub", role: "status" });
    const close = h("button", { type: "button", class: "quiet", text: t("Close"), on: { click: () => this.close() } });
    const says = h("div", {}, this.name, this.note);
    this.card.append(this.button, says, close);
    this.load();
  }

  /** Focus the button, so that Enter and Space press it; false where the page shows none. */
  focus() {
    this.button?.focus({ preventScroll: true });
    return document.activeElement === this.button;
  }

  setState(state, note) {
    this.state = state;
    this.note.textContent = note;
    const hadFocus = document.activeElement === this.button;
    this.button.hidden = state === "gone" && !this.page.params.get("text");
    if (hadFocus && this.button.hidden) this.page.focus();
    this.button.setAttribute("aria-label", state === "gone" ? t("Speak it again") : t("Play"));
  }

  async load() {
    this.setState("loading", t("Loading…"));
    const file = (ending) => `traces/${this.token}${ending}`;
    /** @type {any} */
    let parts;
    try {
      const response = await fetch(new URL(file(".view"), this.page.server));
      if (!response.ok) return this.setState("gone", `${GONE} ${this.page.params.get("text") ? OFFER : NO_TEXT}`);
      parts = parse(await response.arrayBuffer());
    } catch {
      return this.setState("offline", OFFLINE);
    }
    const { timeline, facts } = parts.view;
    if (this.card.isConnected && this.page.phase === "idle") this.show(timeline, parts.pcm.slice(), facts, file);
  }

  show(timeline, pcm, facts, file) {
    const { page } = this;
    if (page.text.value.trim() === (page.params.get("text") ?? "").trim()) page.editor.adopt(timeline.text);
    page.rateHz = timeline.rate_hz;
    const seconds = `${decimal(pcm.length / timeline.rate_hz, 1)} s`; // before the samples are transferred
    const urls = { trace_url: file(".trace"), wav_url: file(".wav") };
    page.post({ type: "shared", timeline, pcm, urls }, [pcm.buffer]);
    const { voice, speaker } = facts.about ?? {};
    const name = [voice, speaker]
      .filter(Boolean)
      .map((part) => displayName(String(part)))
      .join(": ");
    this.setState("ready", [name, seconds, t("plays as it was heard, with its pauses")].filter(Boolean).join(" · "));
    if (this.isWanted) this.press();
  }

  press() {
    const { page, state } = this;
    this.isWanted = state === "loading"; // play when it is there
    if (state === "offline") this.load();
    else if (state === "gone") {
      page.do("speak");
      page.do("finish"); // the shared text is whole
    } else if (state === "ready") page.do(page.phase === "replay" ? "stop" : "replay");
    else page.gesture();
  }

  /** After a change of the page's state; another utterance removes the card. */
  update() {
    if (this.state === "none") return;
    const { phase, play } = this.page;
    if (play && !["shared", "replay"].includes(play.mode)) return this.close();
    if (this.state !== "ready") return undefined;
    const isPlaying = phase === "replay";
    this.picture.firstElementChild.setAttribute("d", isPlaying ? STOP : PLAY);
    return this.button.setAttribute("aria-label", isPlaying ? t("Stop") : t("Play"));
  }

  close() {
    this.state = "none";
    this.card.remove();
    history.replaceState(history.state, "", sharedAddress(location.href, ""));
  }
}
