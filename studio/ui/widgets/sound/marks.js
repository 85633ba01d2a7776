// What is written over the spectrogram.

const WORD_PX = 22;
const BESIDE_PX = 3; // between a label and the ends of its span
const FEWEST_LETTERS = 2; // before an ellipsis

/** The index of the first entry whose `key` is not below `limit`; entries are in order. */
function lowerBound(list, key, limit) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(list[middle]) < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** As much of a word as `room` holds, by what `measure` makes of a text; "" when that says nothing. */
export function fitted(text, room, measure) {
  if (measure(text) <= room) return text;
  const letters = Array.from(text);
  for (let count = letters.length - 1; count >= FEWEST_LETTERS; count--) {
    const part = `${letters.slice(0, count).join("")}\u2026`;
    if (measure(part) <= room) return part;
  }
  return "";
}

export function drawWords(scope, view) {
  const { paint, colours, words, rateHz } = scope;
  paint.font = "600 11.5px Arial, sans-serif";
  paint.textBaseline = "middle";
  const from = Math.max(0, lowerBound(words, (w) => w?.start ?? 0, view.startS * rateHz) - 1);
  const made = scope.columns * (rateHz * 0.008);
  for (let i = from; i < words.length; i++) {
    const word = words[i];
    if (!word) continue;
    const x = view.x(word.start);
    if (x > scope.width) break;
    const end = view.x(word.end || words[i + 1]?.start || Math.max(word.start, made));
    const isNow = word.start < view.sample && view.sample < (word.end || Infinity);
    const wasHeard = word.start < view.sample;
    paint.fillStyle = isNow ? colours.accent : wasHeard ? colours["accent-soft"] : colours.paper;
    paint.beginPath();
    paint.roundRect(x + 1, 3, Math.max(1, end - x - 2), WORD_PX - 2, 4);
    paint.fill();
    // The label lies in the part of the span that is seen.
    const [left, right] = [Math.max(x, 0), Math.min(end, scope.width)];
    const label = fitted(word.text, right - left - 2 * BESIDE_PX, (text) => paint.measureText(text).width);
    // A word that is still being made grows: its label waits until it is whole.
    if (!label || (label !== word.text && !word.end)) continue;
    paint.fillStyle = isNow ? colours["accent-ink"] : wasHeard ? colours.ink : colours.muted;
    paint.fillText(label, (left + right - paint.measureText(label).width) / 2, WORD_PX / 2 + 3);
  }
}

/** Seams, ends of segments, and the waits that were heard. */
export function drawMarks(scope, view) {
  const { paint, colours, rateHz } = scope;
  const low = view.startS * rateHz;
  const high = low + (scope.width / scope.perSecond) * rateHz;
  paint.strokeStyle = colours.muted;
  paint.globalAlpha = 0.7;
  paint.lineWidth = 1;
  paint.setLineDash([2, 4]);
  paint.beginPath();
  for (let k = lowerBound(scope.seams, (s) => s, low); k < scope.seams.length && scope.seams[k] <= high; k++) {
    const x = Math.round(view.x(scope.seams[k])) + 0.5;
    paint.moveTo(x, view.top);
    paint.lineTo(x, view.bottom);
  }
  paint.stroke();
  paint.setLineDash([]);
  paint.globalAlpha = 1;
  for (let k = lowerBound(scope.eos, (e) => e.sample, low); k < scope.eos.length && scope.eos[k].sample <= high; k++) {
    triangle(paint, view.x(scope.eos[k].sample), view.bottom, scope.eos[k].forced ? colours.stall : colours.ink, scope.eos[k].forced);
  }
  for (const gap of scope.gaps) {
    if (gap.sample < low || gap.sample > high) continue;
    const isStall = gap.reason !== "text";
    paint.fillStyle = isStall ? colours.stall : colours.muted;
    const x = view.x(gap.sample);
    paint.fillRect(x - 3, view.bottom + 3, 2, 8);
    paint.fillRect(x + 1, view.bottom + 3, 2, 8);
  }
}

function triangle(paint, x, bottom, colour, hollow) {
  paint.beginPath();
  paint.moveTo(x - 4, bottom - 1);
  paint.lineTo(x + 4, bottom - 1);
  paint.lineTo(x, bottom - 8);
  paint.closePath();
  if (hollow) {
    paint.strokeStyle = colour;
    paint.stroke();
  } else {
    paint.fillStyle = colour;
    paint.fill();
  }
}
