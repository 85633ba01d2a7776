// Maps positions in the text as sent to the corrected field, by common words, since corrections may be far apart.

import { difference } from "../../wire/editor.js";

const MAX_PAIRS = 250_000; // of compared words; a longer section between two corrections counts as one change

/** A function from code points of `sent` to code points of `own`, both arrays of them. */
export function positionMap(sent, own) {
  const anchors = commonWords(words(sent), words(own));
  anchors.push({ from: sent.length, to: sent.length, at: own.length });
  return (point) => {
    let low = 0;
    let high = anchors.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (anchors[middle].from <= point) low = middle + 1;
      else high = middle;
    }
    const last = anchors[low - 1] ?? { from: 0, to: 0, at: 0 };
    if (point <= last.to || low === anchors.length) return last.at + Math.min(point, last.to) - last.from;
    const next = anchors[low];
    const [from, at] = [last.to, last.at + last.to - last.from];
    const change = difference(sent.slice(from, next.from).join(""), own.slice(at, next.at).join(""));
    const within = point - from;
    const isAfter = change && within > change.at && within >= change.at + change.remove;
    const grown = isAfter ? Array.from(change.insert).length - change.remove : 0;
    return Math.min(next.at, at + within + grown);
  };
}

/** Words common to both, in order: position in the first, {from, to}, and in the second, {at}. */
function commonWords(before, after) {
  let [first, lastBefore, lastAfter] = [0, before.length, after.length];
  while (first < Math.min(lastBefore, lastAfter) && before[first].text === after[first].text) first++;
  while (Math.min(lastBefore, lastAfter) > first && before[lastBefore - 1].text === after[lastAfter - 1].text) {
    lastBefore--;
    lastAfter--;
  }
  const pair = (i, j) => ({ from: before[i].from, to: before[i].to, at: after[j].from });
  const pairs = Array.from({ length: first }, (_, i) => pair(i, i));
  const [rows, columns] = [lastBefore - first, lastAfter - first];
  if (rows * columns <= MAX_PAIRS) {
    for (const [i, j] of longestCommon(rows, columns, (i, j) => before[first + i].text === after[first + j].text)) {
      pairs.push(pair(first + i, first + j));
    }
  }
  for (let i = lastBefore; i < before.length; i++) pairs.push(pair(i, lastAfter + i - lastBefore));
  return pairs;
}

/** Pairs of a longest common subsequence. */
function longestCommon(rows, columns, isSame) {
  const width = columns + 1;
  const best = new Uint16Array((rows + 1) * width); // length for the suffixes from (i, j)
  for (let i = rows - 1; i >= 0; i--) {
    for (let j = columns - 1; j >= 0; j--) {
      const at = i * width + j;
      best[at] = isSame(i, j) ? best[at + width + 1] + 1 : Math.max(best[at + width], best[at + 1]);
    }
  }
  const out = [];
  for (let i = 0, j = 0; i < rows && j < columns; ) {
    if (isSame(i, j)) out.push([i++, j++]);
    else if (best[(i + 1) * width + j] >= best[i * width + j + 1]) i++;
    else j++;
  }
  return out;
}

function words(chars) {
  const out = [];
  let from = -1;
  for (let at = 0; at <= chars.length; at++) {
    const isSpace = at === chars.length || /\s/.test(chars[at]);
    if (isSpace && from >= 0) out.push({ from, to: at, text: chars.slice(from, at).join("") });
    if (isSpace) from = -1;
    else if (from < 0) from = at;
  }
  return out;
}
