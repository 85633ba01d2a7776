// The status line and the chip: what is going on, in words.

const SHOWN_MS = 9000;
const REST_MS = 1200; // a voice that rests for less between two words is still speaking, as people say it
const RESTS = ["listening", "working"];

const NOTES = {
  edited: "That word was heard already: the change is shown, what was said stays.",
  already_said: "That part has been said already. Press Speak to say the whole text again.",
  queued: "That comes next: what is being said is heard to its end first. Stop drops both.",
  full: "The field is full: it holds 200,000 characters, and the rest was left out.",
  idle_end: "Nothing was typed for a while, so the text was finished. Go on typing whenever you like.",
};

const CHIPS = {
  idle: "Ready",
  listening: "Waiting for words",
  working: "Working",
  speaking: "Speaking",
  paused: "Paused",
  waiting: "Waiting for a place",
  replaying: "Replaying",
  offline: "Not connected",
};

export class Status {
  constructor(root) {
    this.line = root.querySelector(".status");
    this.badge = root.querySelector(".chip");
    this.about = "";
  }

  /** Show a message; `about` names what it is about, so that it can be dropped when that is over. */
  say(level, text, about = "") {
    clearTimeout(this.timer);
    if (this.line.textContent !== text) this.line.textContent = text;
    this.line.dataset.level = level;
    this.about = about;
    if (level === "info") this.timer = setTimeout(() => this.clear(), SHOWN_MS);
  }

  /** Show a message where nothing of weight stands. */
  offer(level, text, about) {
    if (!this.line.textContent || this.line.dataset.level === "info") this.say(level, text, about);
  }

  note(code) {
    this.say("info", NOTES[code], code);
  }

  drop(about) {
    if (this.about === about) this.clear();
  }

  clear() {
    clearTimeout(this.timer);
    this.line.textContent = this.about = "";
  }

  /** What is going on; the short rests of a voice that waits for its writer do not make it flicker. */
  chip(state, mode) {
    if (state === this.awaited) return;
    clearTimeout(this.resting);
    this.awaited = state;
    if (this.badge.dataset.state !== "speaking" || !RESTS.includes(state)) return void this.wear(state, mode);
    this.resting = setTimeout(() => this.wear(state, mode), REST_MS);
  }

  wear(state, mode) {
    const text = state === "listening" && mode === "old" ? "Waiting for a sentence" : CHIPS[state];
    if (this.badge.dataset.state !== state) this.badge.dataset.state = state;
    if (this.badge.lastElementChild.textContent !== text) this.badge.lastElementChild.textContent = text;
  }
}
