// Stage mode (?stage), for talks: large dark field and one figure; prepared texts on Ctrl+digit (Alt+digit where the
// browser uses that for tabs), a sound check, and the volume. Esc stops the speech, then leaves.

import { language, t } from "../../page/translate.js";

const PARAM = "stage"; // in the page's address
const STORAGE_KEY = "studio-stage-texts";
const MAX_TEXTS = 9;
const CHECK = "One, two, three. This is a sound check.";

const nonEmptyLines = (text) => text.split("\n").filter((line) => line.trim());

export class Talk {
  /** `on`: type(text), sample(text). */
  constructor(root, player, examples, on) {
    this.player = player;
    this.on = on;
    this.bar = root.querySelector(".talk");
    this.list = this.bar.querySelector(".talk-texts");
    this.field = this.bar.querySelector("textarea");
    this.output = this.bar.querySelector("output");
    const stored =
      localStorage.getItem(STORAGE_KEY) ??
      examples
        .slice(0, MAX_TEXTS)
        .map((one) => one.text)
        .join("\n");
    this.texts = nonEmptyLines(stored);
    this.root = root;
    this.field.value = this.texts.join("\n");
    this.field.addEventListener("input", () => this.store());
    this.bar
      .querySelector('[type="range"]')
      .addEventListener("input", (e) => this.player.setVolume(Number(e.target.value) / 100));
    const press = (name, action) => this.bar.querySelector(`[data-talk="${name}"]`).addEventListener("click", action);
    press("check", () => this.check());
    press("full", () => this.full());
    press("leave", () => this.leave());
    root.querySelector('[data-talk="enter"]').addEventListener("click", () => this.enter());
    this.keys = (e) => this.key(e);
    this.draw();
    if (new URLSearchParams(location.search).has(PARAM)) this.enter();
  }

  enter() {
    const { body } = document;
    body.dataset.stage ??= body.classList.contains("dark") ? "dark" : "light"; // the theme of the page without it
    body.classList.add("dark");
    this.show(true);
    addEventListener("keydown", this.keys, true);
    this.root.querySelector("#live-text").focus({ preventScroll: true });
  }

  /** Back to the page as it was; speech and text go on. */
  leave() {
    this.dispose();
    if (document.fullscreenElement) document.exitFullscreen();
    document.body.classList.toggle("dark", document.body.dataset.stage === "dark");
    delete document.body.dataset.stage;
    this.show(false);
    this.root.querySelector('[data-talk="enter"]').focus({ preventScroll: true });
  }

  show(isOn) {
    this.bar.hidden = !isOn;
    const url = new URL(location.href);
    if (isOn) url.searchParams.set(PARAM, "");
    else url.searchParams.delete(PARAM);
    history.replaceState(history.state, "", url);
  }

  store() {
    this.texts = nonEmptyLines(this.field.value);
    localStorage.setItem(STORAGE_KEY, this.texts.join("\n"));
    this.draw();
  }

  draw() {
    this.list.replaceChildren(
      ...this.texts.slice(0, MAX_TEXTS).map((text, k) => {
        const button = document.createElement("button");
        const key = document.createElement("kbd");
        key.textContent = String(k + 1);
        button.type = "button";
        button.title = text;
        button.append(key, ` ${text.length > 34 ? `${text.slice(0, 32).trim()}\u2026` : text}`);
        button.addEventListener("click", () => this.on.type(text));
        return button;
      }),
    );
  }

  key(e) {
    const isSilent = this.root.querySelector('[data-do="stop"]').disabled;
    if (e.key === "Escape" && isSilent && !e.isComposing && !document.fullscreenElement) return this.leave();
    const digit = Number(/^Digit([1-9])$/.exec(e.code)?.[1]);
    const text = digit && (e.ctrlKey || e.altKey) && !e.metaKey && this.texts[digit - 1];
    if (!text) return undefined;
    e.preventDefault();
    return this.on.type(text);
  }

  /** Toggle full screen, in which the page receives Ctrl+digit. */
  async full() {
    if (document.fullscreenElement) return void document.exitFullscreen();
    await document.documentElement.requestFullscreen();
    // @ts-expect-error: the Keyboard API is not in the DOM types
    await navigator.keyboard?.lock?.(Array.from({ length: MAX_TEXTS }, (_, k) => `Digit${k + 1}`));
  }

  check() {
    this.isChecking = true;
    this.output.textContent = t("Speaking…");
    this.on.sample(CHECK);
  }

  /** The first sound has left the page. */
  onAudible() {
    if (!this.isChecking) return;
    this.isChecking = false;
    const { context, clock } = this.player;
    const silent = this.player.volume === 0 ? ` ${t("The volume is at zero.")}` : "";
    this.output.textContent =
      t("Sound is working: {rate} kHz, {delay} ms to the loudspeaker.", {
        rate: (context.sampleRate / 1000).toLocaleString(language),
        delay: Math.round(clock.latencyMs),
      }) + silent;
  }

  dispose() {
    removeEventListener("keydown", this.keys, true);
  }
}
