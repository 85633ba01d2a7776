// The status line and the status chip.

import { t } from "../page/translate.js";

const SHOWN_MS = 9000;
const PAUSE_MS = 1200; // shorter pauses between words count as speaking
const PAUSED_STATES = ["listening", "working"];

const NOTES = {
  edited: t("Already spoken: your edit won't be re-read. New words are green."),
  already_said: t("That part was already spoken. Press Speak to speak the whole text again."),
  queued: t("Next in the queue: the current speech plays to its end first. Stop cancels both."),
  full: t("The field is full: its limit is 200,000 characters, and the rest was left out."),
  idle_end: t("The text was finished after 30 s without typing. Keep typing at any time."),
};

const CHIPS = {
  idle: t("Ready"),
  listening: t("Waiting for words"),
  working: t("Working"),
  speaking: t("Speaking"),
  paused: t("Paused"),
  waiting: t("In queue"),
  replaying: t("Replaying"),
  offline: t("Not connected"),
};

export class Status {
  constructor(root) {
    this.line = root.querySelector(".status");
    this.badge = root.querySelector(".chip");
    this.topic = "";
  }

  /** Show a message; `topic` identifies it for drop(). */
  show(level, text, topic = "") {
    clearTimeout(this.timer);
    if (this.line.textContent !== text) this.line.textContent = text;
    this.line.dataset.level = level;
    this.topic = topic;
    if (level === "info") this.timer = setTimeout(() => this.clear(), SHOWN_MS);
  }

  /** Show a message unless a warning or an error is shown. */
  showMinor(level, text, topic) {
    if (!this.line.textContent || this.line.dataset.level === "info") this.show(level, text, topic);
  }

  note(code) {
    this.show("info", NOTES[code], code);
  }

  drop(topic) {
    if (this.topic === topic) this.clear();
  }

  clear() {
    clearTimeout(this.timer);
    this.line.textContent = this.topic = "";
  }

  /** Set the chip; short pauses for text do not make it flicker. */
  chip(state, mode) {
    if (state === this.state) return;
    clearTimeout(this.chipTimer);
    this.state = state;
    if (this.badge.dataset.state !== "speaking" || !PAUSED_STATES.includes(state))
      return void this.setChip(state, mode);
    this.chipTimer = setTimeout(() => this.setChip(state, mode), PAUSE_MS);
  }

  setChip(state, mode) {
    const text = state === "listening" && mode === "old" ? t("Waiting for a sentence") : CHIPS[state];
    if (this.badge.dataset.state !== state) this.badge.dataset.state = state;
    if (this.badge.lastElementChild.textContent !== text) this.badge.lastElementChild.textContent = text;
  }
}
