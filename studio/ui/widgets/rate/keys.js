// The keyboard on a screen of the test: space plays, numbers score, letters choose, arrows move, Enter sends.

import { CHOICE_KEYS } from "./marks.js";

const TYPING_MS = 900; // digits typed within this time form one number
const MAX_DIGITS = 4;
const STEPS = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 };

/** Some browsers click a focused button on keyup of space even if keydown was cancelled. */
export function preventSpaceClick(event) {
  if (event.key === " " && event.target.closest?.(".play")) event.preventDefault();
}

export class TrialKeys {
  constructor(trial) {
    this.trial = trial;
    this.at = 0; // the question that a number answers
    this.digits = "";
    this.press = (event) => this.pressed(event);
    document.addEventListener("keydown", this.press);
    document.addEventListener("keyup", preventSpaceClick);
  }

  close() {
    document.removeEventListener("keydown", this.press);
    document.removeEventListener("keyup", preventSpaceClick);
  }

  pressed(event) {
    const { trial } = this;
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || trial.isLocked) return;
    if (!trial.element.isConnected || document.querySelector("dialog[open]")) return;
    const target = event.target instanceof Element ? event.target : document.body;
    const isElsewhere = target.closest("button, a, textarea, summary") && !trial.element.contains(target);
    if (isElsewhere) return;
    if (this.take(event.key, target, event.repeat)) event.preventDefault();
  }

  /** Handle a key; returns whether it was used. */
  take(key, target, isRepeat) {
    const { trial } = this;
    if (key === "Enter") {
      if (!isRepeat) trial.send();
      return true;
    }
    if (key === " ") return this.space(target, isRepeat);
    if (trial.isPage && "[]".includes(key)) return this.edge(key);
    if (trial.isPage && key === "Escape" && trial.deck.region) return !trial.deck.repeat(null);
    if (key in STEPS) return this.move(target, STEPS[key], key);
    if (target.matches("input[type=number]")) return false;
    if (/^\d$/.test(key)) return this.digit(key, target);
    if (key === "-" || key === "+") return this.side(key);
    return this.letter(key.toLowerCase());
  }

  space(target, isRepeat) {
    if (target === this.trial.sender) return false;
    const slot = this.soundOf(target);
    if (!isRepeat) {
      this.trial.deck.toggle(slot);
      this.trial.players[slot].press.focus({ preventScroll: true });
    }
    return true;
  }

  /** A bracket sets an end of the loop region to the playhead. */
  edge(key) {
    const { deck } = this.trial;
    if (deck.active < 0) return false;
    const atS = deck.position(deck.active);
    if (key === "[") this.fromS = atS;
    else deck.repeat(this.fromS ?? 0, atS);
    return true;
  }

  /** The focused sound, else the one played last, else the first. */
  soundOf(target) {
    const near = target.closest(".row, .sound")?.querySelector(".play");
    const index = this.trial.players.findIndex((p) => p.press === near);
    if (index >= 0) return index;
    return this.trial.deck.active >= 0 ? this.trial.deck.active : this.trial.order[0];
  }

  /** Arrows move between sounds, or from a single sound to the questions; in an input the browser handles them. */
  move(target, step, key) {
    const { trial } = this;
    if (target.matches("input")) return false;
    if (trial.players.length === 1) {
      this.at =
        trial.step ?? Math.min(trial.marks.length - 1, Math.max(0, this.at + (target.matches(".play") ? 0 : step)));
      trial.marks[this.at].focus();
      return true;
    }
    const index = trial.order.indexOf(this.soundOf(target)) + (target.matches(".play") ? step : 0);
    const slot = trial.order[Math.min(trial.order.length - 1, Math.max(0, index))];
    trial.players[slot].press.focus({ preventScroll: key === "ArrowLeft" || key === "ArrowRight" });
    return true;
  }

  /** The sign before a digit, on a signed scale. */
  side(key) {
    const isSigned = this.trial.marks.some((m) => m.low < 0);
    this.isNegative = isSigned && key === "-";
    return isSigned;
  }

  digit(key, target) {
    const { trial } = this;
    if (trial.isPair) return false;
    const index = this.markOf(target);
    const mark = trial.marks[index];
    if (!mark) return false;
    if (mark.low < 0) {
      const isSet = mark.set((this.isNegative ? -1 : 1) * Number(key));
      this.isNegative = false;
      if (isSet) this.nextQuestion(index);
      return isSet;
    }
    const isMore = performance.now() - (this.digitMs ?? 0) < TYPING_MS && this.digitAt === index;
    const typed = (isMore ? this.digits : "") + key;
    this.digitMs = performance.now();
    this.digitAt = index;
    if (Number(typed) > mark.high && mark.high >= 10) {
      // 120 means neither 0 nor 12
      this.digits = typed.slice(0, MAX_DIGITS);
      mark.refuse?.();
      return true;
    }
    this.digits = Number(typed) > mark.high ? key : String(Number(typed));
    if (mark.set(Number(this.digits)) && 10 * Number(this.digits) > mark.high && !trial.isPage)
      this.nextQuestion(index);
    return true;
  }

  /** The question that a number answers: the focused one, else the current one. */
  markOf(target) {
    const { marks, isPage } = this.trial;
    const within = marks.findIndex((m) => m.element.contains(target));
    if (within >= 0) return within;
    if (isPage) return marks.findIndex((m) => m.slot === this.trial.trial.slots[this.soundOf(target)].slot); // -1 for a reference
    return this.trial.step ?? Math.min(this.at, marks.length - 1);
  }

  /** Move to the next question after a number. */
  nextQuestion(index) {
    const { marks, element, step } = this.trial;
    if (step !== undefined) return; // the sound must be replayed first
    this.at = (index + 1) % marks.length;
    for (const [k, mark] of marks.entries())
      mark.element.classList.toggle("current", marks.length > 1 && k === this.at);
    const within = document.activeElement?.closest?.(".marks");
    if (within && element.contains(within)) marks[this.at].focus();
    this.digits = "";
  }

  letter(key) {
    const { trial } = this;
    if (trial.isPair) {
      const choice = Object.keys(CHOICE_KEYS).find((name) => CHOICE_KEYS[name] === key);
      return choice ? trial.marks[0].set(choice) : false;
    }
    if (!trial.isPage) return false;
    const index = trial.names.indexOf(key.toUpperCase());
    const slot = index < 0 && key === "r" ? trial.trial.slots.findIndex((s) => s.place === "reference") : index;
    if (slot < 0) return false;
    if (trial.deck.active !== slot || !trial.deck.isPlaying) trial.deck.play(slot);
    trial.players[slot].press.focus({ preventScroll: false });
    return true;
  }
}
