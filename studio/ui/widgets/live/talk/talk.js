// Stage mode (?stage): for a talk in front of people. Field, words and one number, large and dark; prepared texts on
// Ctrl+digits (Alt+digits where the browser keeps those for its tabs), a check of the sound, and the volume.

const KEPT = "studio-stage-texts";
const MOST = 9;
const CHECK = "One, two, three. This is a sound check.";

export class Talk {
  /** `on` has type(text, wpm), sample(text), back(). */
  constructor(root, player, examples, on) {
    Object.assign(this, { root, player, on });
    this.bar = root.querySelector(".talk");
    this.list = this.bar.querySelector(".talk-texts");
    this.field = this.bar.querySelector("textarea");
    this.told = this.bar.querySelector("output");
    const kept = localStorage.getItem(KEPT);
    this.texts = kept === null ? examples.map((one) => one.text).slice(0, MOST) : kept.split("\n").filter((line) => line.trim());
    root.dataset.talk = "";
    this.bar.hidden = false;
    document.body.classList.add("dark");
    this.field.value = this.texts.join("\n");
    this.field.addEventListener("input", () => this.keep());
    this.bar.querySelector('[type="range"]').addEventListener("input", (e) => this.player.setVolume(Number(e.target.value) / 100));
    const press = (name, action) => this.bar.querySelector(`[data-talk="${name}"]`).addEventListener("click", action);
    press("check", () => this.check());
    press("full", () => this.full());
    this.keys = (e) => this.key(e);
    addEventListener("keydown", this.keys, true);
    this.draw();
  }

  keep() {
    this.texts = this.field.value.split("\n").filter((line) => line.trim());
    localStorage.setItem(KEPT, this.texts.join("\n"));
    this.draw();
  }

  draw() {
    this.list.replaceChildren(
      ...this.texts.slice(0, MOST).map((text, k) => {
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
    const place = /^Digit([1-9])$/.exec(e.code)?.[1];
    const text = place && (e.ctrlKey || e.altKey) && !e.metaKey && this.texts[place - 1];
    if (!text) return;
    e.preventDefault();
    this.on.type(text);
  }

  /** Full screen, where the browser leaves Ctrl+digits to the page. */
  async full() {
    if (document.fullscreenElement) return void document.exitFullscreen();
    await document.documentElement.requestFullscreen();
    await navigator.keyboard?.lock?.(Array.from({ length: MOST }, (_, k) => `Digit${k + 1}`));
  }

  check() {
    this.isChecking = true;
    this.told.textContent = "Speaking\u2026";
    this.on.sample(CHECK);
  }

  /** A first sound has left the page. */
  heard() {
    if (!this.isChecking) return;
    this.isChecking = false;
    const { context, clock } = this.player;
    const silent = this.player.volume === 0 ? " The volume is at zero." : "";
    this.told.textContent = `Sound leaves this page: ${context.sampleRate / 1000} kHz, ${Math.round(clock.latencyMs)} ms to the loudspeaker.${silent}`;
  }

  dispose() {
    removeEventListener("keydown", this.keys, true);
  }
}
