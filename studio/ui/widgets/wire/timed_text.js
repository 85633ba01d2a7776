// Text with the arrival time of each character; positions are Unicode code points.

export class TimedText {
  constructor() {
    this.chars = [];
    this.times = [];
    this.firstMs = 0;
    this.endMs = 0;
  }

  get length() {
    return this.chars.length;
  }

  edit(at, remove, insert, tMs) {
    const added = Array.from(insert);
    const stamps = new Array(added.length).fill(tMs);
    this.chars = this.chars.slice(0, at).concat(added, this.chars.slice(at + remove));
    this.times = this.times.slice(0, at).concat(stamps, this.times.slice(at + remove));
    this.firstMs ||= tMs;
    this.endMs = tMs;
  }

  text(from = 0, to = this.chars.length) {
    return this.chars.slice(from, to).join("");
  }

  /** The number of characters that had arrived `elapsedMs` after the first one. */
  countArrived(elapsedMs) {
    let count = 0;
    while (count < this.times.length && this.times[count] - this.firstMs <= elapsedMs) count++;
    return count;
  }
}

const ABBREVIATION = /(^|\s)(mr|mrs|ms|dr|prof|st|vs|etc|e\.g|i\.e|p\.m|a\.m|no)\.$/i;

/** Sentences as [from, to) in characters, each with the white space after it. */
export function sentences(chars) {
  const out = [];
  let from = 0;
  for (let k = 0; k < chars.length; k++) {
    if (!".!?\n".includes(chars[k])) continue;
    let to = k + 1;
    while (to < chars.length && `"'”’)`.includes(chars[to])) to++;
    if (to < chars.length && !/\s/.test(chars[to])) continue;
    if (chars[k] === "." && to < chars.length && ABBREVIATION.test(chars.slice(Math.max(0, k - 8), k + 1).join("")))
      continue;
    while (to < chars.length && /\s/.test(chars[to])) to++;
    out.push([from, to]);
    from = to;
    k = to - 1;
  }
  if (from < chars.length) out.push([from, chars.length]);
  return out;
}

/** Each sentence at the arrival of its last character: [{tMs, text}], from the first character on. */
export function sentenceArrivals(typed) {
  return sentences(typed.chars).map(([from, to]) => {
    let tMs = 0;
    for (let k = from; k < to; k++) {
      if (!/\s/.test(typed.chars[k])) tMs = Math.max(tMs, typed.times[k] - typed.firstMs);
    }
    return { tMs, text: typed.text(from, to) };
  });
}

/** Tokens as a language model sends them: a word with its leading space, long words in parts. */
export function tokens(text) {
  return text.match(/\s*[\p{L}\p{N}'’]{1,6}|\s*[^\s\p{L}\p{N}]+|\s+/gu) ?? [];
}

/** `tokens` at a constant rate: [{tMs, text}]. */
export function tokenArrivals(text, perSecond) {
  return tokens(text).map((piece, k) => ({ tMs: (k * 1000) / perSecond, text: piece }));
}

/** Key presses at a constant speed in words per minute: [{tMs, text}]. */
export function keystrokes(text, wpm) {
  const perWordMs = 60000 / wpm;
  const words = text.trim().split(/\s+/);
  return words.flatMap((word, index) => {
    const isLast = index === words.length - 1;
    const keys = Array.from(isLast ? word : `${word} `);
    const perKey = 1 / (keys.length + (isLast ? 1 : 0));
    return keys.map((key, k) => ({ tMs: (index + (k + 1) * perKey) * perWordMs, text: key }));
  });
}
