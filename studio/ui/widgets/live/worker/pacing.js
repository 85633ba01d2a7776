// Smooth mode: a voice that is quicker than its writer speaks by phrases, so that its pauses fall between them.

const HOLD_S = 4; // the longest that a finished word waits for its phrase
const QUICK_WPM = 120; // who types so fast is followed word by word
const FIRST_WORDS = 3; // before a pace is known
const JUDGED_WORDS = 6;
const MOST_WORDS = 7;
const PHRASE_END = /[.,;:!?\u2013\u2014)"\u201d]$/;

export const SMOOTH_CREDIT_MS = 5000; // room for a phrase that is held back, and for the one that is heard

/** Words a minute at which the last words were finished; null while too few were. */
export function typedWpm(words) {
  const last = words.filter(Boolean).slice(-JUDGED_WORDS);
  const ms = last.length > 2 ? last.at(-1).keyMs - last[0].keyMs : 0;
  return ms > 0 ? ((last.length - 1) * 60000) / ms : null;
}

/** Words a minute that the voice speaks, without its waits; null while too few have been spoken. */
export function spokenWpm(words, rateHz) {
  const whole = words.filter((word) => word?.endSample > word?.sample);
  const samples = whole.reduce((sum, word) => sum + word.endSample - word.sample, 0);
  return whole.length > 2 ? (whole.length * 60 * rateHz) / samples : null;
}

/** How many words a phrase has for who types at `wpm`. */
export function phraseWords(wpm) {
  if (wpm === null) return FIRST_WORDS;
  return wpm >= QUICK_WPM ? 1 : Math.max(2, Math.min(MOST_WORDS, Math.ceil((HOLD_S * wpm) / 60)));
}

const SLOWEST = 0.8; // slower than that sounds drawn out
const SLOW_WPM = 60; // and is for who types so, or slower

/** How fast the voice speaks to who types at `wpm`, 1 being its own pace. */
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

  /** Whether the phrase is over with word `i`; then the next one begins. */
  isOver(words, i) {
    const isEnd = PHRASE_END.test(words[i]?.word ?? "") || i - this.from + 1 >= phraseWords(typedWpm(words));
    if (isEnd) this.from = i + 1;
    return isEnd;
  }
}
