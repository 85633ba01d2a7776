// The keyboard on a screen of the test: space plays, numbers score, letters choose, arrows move, Enter sends.

import { CHOICE_KEYS } from "./marks.js";

const TYPING_MS = 900; // digits that follow each other so closely are one number
const MOST_DIGITS = 4;
const STEPS = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 };

/** Some browsers press a focused button when space is let go, whatever became of the key's going down. */
export function keepFromClicking(event) {
  if (event.key === " " && event.target.closest?.(".play")) event.preventDefault();
}

export class TrialKeys {
  constructor(trial) {
    this.trial = trial;
    this.at = 0; // the question that a number answers
    this.digits = "";
    this.press = (event) => this.pressed(event);
    document.addEventListener("keydown", this.press);
    document.addEventListener("keyup", keepFromClicking);
  }

  close() {
    document.removeEventListener("keydown", this.press);
    document.removeEventListener("keyup", keepFromClicking);
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

  /** Whether the key was ours. */
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

  /** A bracket is an end of the region that is played again and again: where the sounds are now. */
  edge(key) {
    const { deck } = this.trial;
    if (deck.active < 0) return false;
    const atS = deck.position(deck.active);
    if (key === "[") this.fromS = atS;
    else deck.repeat(this.fromS ?? 0, atS);
    return true;
  }

  /** The sound that the focus is on or beside; else the one heard last, else the first. */
  soundOf(target) {
    const near = target.closest(".row, .sound")?.querySelector(".play");
    const found = this.trial.players.findIndex((p) => p.press === near);
    if (found >= 0) return found;
    return this.trial.deck.active >= 0 ? this.trial.deck.active : this.trial.order[0];
  }

  /** Arrows go from sound to sound; from a lone sound to the questions; inside an answer they are the browser's. */
  move(target, step, key) {
    const { trial } = this;
    if (target.matches("input")) return false;
    if (trial.players.length === 1) {
      this.at = trial.step ?? Math.min(trial.marks.length - 1, Math.max(0, this.at + (target.matches(".play") ? 0 : step)));
      trial.marks[this.at].focus();
      return true;
    }
    const place = trial.order.indexOf(this.soundOf(target)) + (target.matches(".play") ? step : 0);
    const slot = trial.order[Math.min(trial.order.length - 1, Math.max(0, place))];
    trial.players[slot].press.focus({ preventScroll: key === "ArrowLeft" || key === "ArrowRight" });
    return true;
  }

  /** On a scale with two sides the sign comes before the digit. */
  side(key) {
    const hasSides = this.trial.marks.some((m) => m.low < 0);
    this.isBelow = hasSides && key === "-";
    return hasSides;
  }

  digit(key, target) {
    const { trial } = this;
    if (trial.isPair) return false;
    const place = this.markOf(target);
    const mark = trial.marks[place];
    if (!mark) return false;
    if (mark.low < 0) {
      const isGiven = mark.set((this.isBelow ? -1 : 1) * Number(key));
      this.isBelow = false;
      if (isGiven) this.goOn(place);
      return isGiven;
    }
    const isMore = performance.now() - (this.digitMs ?? 0) < TYPING_MS && this.digitAt === place;
    const typed = (isMore ? this.digits : "") + key;
    this.digitMs = performance.now();
    this.digitAt = place;
    if (Number(typed) > mark.high && mark.high >= 10) { // 120 is no 0, and no 12 either
      this.digits = typed.slice(0, MOST_DIGITS);
      mark.refuse?.();
      return true;
    }
    this.digits = Number(typed) > mark.high ? key : String(Number(typed));
    if (mark.set(Number(this.digits)) && 10 * Number(this.digits) > mark.high && !trial.isPage) this.goOn(place);
    return true;
  }

  /** The question that a number answers: the one with the focus, or beside it, else the first that is open. */
  markOf(target) {
    const { marks, isPage } = this.trial;
    const within = marks.findIndex((m) => m.element.contains(target));
    if (within >= 0) return within;
    if (isPage) return marks.findIndex((m) => m.slot === this.trial.trial.slots[this.soundOf(target)].slot); // a reference has none
    return this.trial.step ?? Math.min(this.at, marks.length - 1);
  }

  /** After a number the next question is the one that is asked. */
  goOn(place) {
    const { marks, element, step } = this.trial;
    if (step !== undefined) return; // the sound comes first
    this.at = (place + 1) % marks.length;
    for (const [k, mark] of marks.entries()) mark.element.classList.toggle("asked", marks.length > 1 && k === this.at);
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
    const named = trial.names.indexOf(key.toUpperCase());
    const slot = named < 0 && key === "r" ? trial.trial.slots.findIndex((s) => s.place === "reference") : named;
    if (slot < 0) return false;
    if (trial.deck.active !== slot || !trial.deck.isPlaying) trial.deck.play(slot);
    trial.players[slot].press.focus({ preventScroll: false });
    return true;
  }
}
