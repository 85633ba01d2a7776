// Smooth mode: for slow typing, speech is played by phrases, so that pauses fall between phrases.

const HOLD_S = 4; // longest wait of a finished word for its phrase
const QUICK_WPM = 120; // from this typing speed on, speech is played word by word
const FIRST_WORDS = 3; // in a phrase, before the typing speed is known
const JUDGED_WORDS = 6;
const MOST_WORDS = 7;
const PHRASE_END = /[.,;:!?\u2013\u2014)"\u201d]$/;

export const SMOOTH_CREDIT_MS = 5000; // covers a phrase that is held and one that is playing

/** Typing speed of the last words, in words per minute; null for too few words. */
export function typedWpm(words) {
  const last = words.filter(Boolean).slice(-JUDGED_WORDS);
  const ms = last.length > 2 ? last.at(-1).keyMs - last[0].keyMs : 0;
  return ms > 0 ? ((last.length - 1) * 60000) / ms : null;
}

/** Speaking rate without waits, in words per minute; null for too few words. */
export function spokenWpm(words, rateHz) {
  const whole = words.filter((word) => word?.endSample > word?.sample);
  const samples = whole.reduce((sum, word) => sum + word.endSample - word.sample, 0);
  return whole.length > 2 ? (whole.length * 60 * rateHz) / samples : null;
}

/** The number of words in a phrase at a typing speed. */
export function phraseWords(wpm) {
  if (wpm === null) return FIRST_WORDS;
  return wpm >= QUICK_WPM ? 1 : Math.max(2, Math.min(MOST_WORDS, Math.ceil((HOLD_S * wpm) / 60)));
}

const SLOWEST = 0.8; // below this, stretched speech sounds unnatural
const SLOW_WPM = 60; // typing speed at which SLOWEST is used

/** Playback rate at a typing speed; 1 is unchanged. */
export function rateFor(wpm) {
  const share = ((wpm ?? QUICK_WPM) - SLOW_WPM) / (QUICK_WPM - SLOW_WPM);
  return SLOWEST + (1 - SLOWEST) * Math.max(0, Math.min(1, share));
}

export class Phrases {
  constructor() {
    this.begin();
  }

  begin() {
    this.from = 0; // the first word of the phrase
  }

  /** Whether word `i` ends the phrase; the next word then begins a new one. */
  endsWith(words, i) {
    const isEnd = PHRASE_END.test(words[i]?.word ?? "") || i - this.from + 1 >= phraseWords(typedWpm(words));
    if (isEnd) this.from = i + 1;
    return isEnd;
  }
}
