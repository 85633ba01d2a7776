// A recording to be sent: from the microphone, with its level and waveform, or from a file; it can be played back.

import { button, h } from "../rate/dom.js";
import { peaksOf, Recorder } from "../sound/recorder.js";

const LONGEST_S = 30; // a recording stops after this
const PEAKS = 240; // bars of the waveform
const QUIET_DB = -35;
const LOUD_DB = -0.2;
const SVG = "http://www.w3.org/2000/svg";
const decibels = (peak) => Math.max(-90, 20 * Math.log10(Math.max(peak, 1e-5)));

export class RecordingField {
  /** `changed()` is called when there is another recording, or none; `fail(text)` shows a message. */
  constructor(base, changed, fail) {
    this.changed = changed;
    this.fail = fail;
    this.file = null;
    this.recorder = new Recorder(base, (block, seconds) => this.hear(block, seconds));
    this.press = button("Record", () => this.toggle());
    this.choice = h("input", {
      type: "file",
      id: "speaker-file",
      class: "sr-only",
      accept: "audio/*,.wav,.flac,.mp3,.ogg,.opus",
      on: { change: () => this.choose() },
    });
    this.level = h("i");
    this.meter = h("div", { class: "meter", "aria-hidden": "true" }, this.level);
    this.state = h("span", { class: "muted", role: "status", text: "No recording yet." });
    this.path = document.createElementNS(SVG, "path");
    this.wave = document.createElementNS(SVG, "svg");
    this.wave.setAttribute("viewBox", `0 0 ${PEAKS} 2`);
    this.wave.setAttribute("preserveAspectRatio", "none");
    this.wave.setAttribute("role", "img");
    this.wave.setAttribute("aria-label", "Waveform of the recording");
    this.wave.append(this.path);
    this.sound = h("audio", { controls: true, hidden: true, "aria-label": "The recording" });
    this.element = h(
      "div",
      { class: "recording" },
      h(
        "div",
        { class: "actions" },
        this.press,
        this.choice,
        h("label", { class: "button", for: "speaker-file", text: "Choose a file" }),
      ),
      this.wave,
      this.meter,
      this.state,
      this.sound,
    );
    this.draw([]);
  }

  get isRecording() {
    return Boolean(this.peaks);
  }

  async toggle() {
    this.press.disabled = true;
    try {
      if (this.isRecording) await this.finish();
      else await this.begin();
    } catch (error) {
      this.peaks = null;
      this.fail(error.message);
    }
    this.press.disabled = false;
    this.press.firstElementChild.textContent = this.isRecording ? "Stop" : "Record";
    this.press.setAttribute("aria-pressed", String(this.isRecording));
  }

  async begin() {
    this.take(null);
    this.fail("");
    await this.recorder.start();
    this.peaks = [];
    this.peak = this.shown = 0;
  }

  async finish() {
    this.peaks = null;
    this.level.style.inlineSize = "0";
    this.take(await this.recorder.stop());
  }

  /** Show the level ten times a second, and a bar of the waveform for each. */
  hear(block, seconds) {
    if (!this.isRecording) return;
    for (const value of block) this.peak = Math.max(this.peak, Math.abs(value));
    if (seconds - this.shown < 0.1) return;
    const db = decibels(this.peak);
    this.peaks.push(this.peak);
    this.level.style.inlineSize = `${Math.max(0, Math.min(100, 100 + (100 * db) / 60))}%`;
    const loudest = decibels(Math.max(...this.peaks));
    const about = loudest > LOUD_DB ? "too loud: step back" : loudest < QUIET_DB ? "quiet: come closer" : "level good";
    this.state.textContent = `Recording, ${seconds.toFixed(1)} s, ${about}`;
    this.draw(this.peaks);
    this.peak = 0;
    this.shown = seconds;
    if (seconds > LONGEST_S) this.toggle();
  }

  choose() {
    const [file] = this.choice.files;
    this.choice.value = "";
    if (file) this.take(file);
  }

  /** Another recording, or null for none. */
  async take(file) {
    if (this.sound.src) URL.revokeObjectURL(this.sound.src);
    this.file = file;
    this.sound.hidden = !file;
    if (file) this.sound.src = URL.createObjectURL(file);
    else this.sound.removeAttribute("src");
    this.state.textContent = file ? file.name : "No recording yet.";
    this.draw([]);
    this.changed();
    if (!file) return;
    const context = new AudioContext();
    try {
      const decoded = await context.decodeAudioData(await file.arrayBuffer());
      if (this.file !== file) return;
      this.draw(peaksOf(decoded.getChannelData(0), PEAKS));
      this.state.textContent = `${file.name}, ${decoded.duration.toFixed(1)} s`;
    } catch {
      // a format that the server reads and this browser does not
    } finally {
      context.close();
    }
  }

  draw(peaks) {
    const step = PEAKS / Math.max(PEAKS, peaks.length);
    const bars = peaks.map(
      (peak, k) => `M${((k + 0.5) * step).toFixed(2)} ${(1 - peak).toFixed(3)}v${(2 * peak).toFixed(3)}`,
    );
    this.path.setAttribute("d", bars.join("") || `M0 1h${PEAKS}`);
  }

  clear() {
    this.take(null);
  }
}
