// Words and marks over the spectrogram.

export const WORDS_PX = 46; // the band of words: two rows of labels over their spans
const ROWS_PX = [24, 9]; // centre of each row; the lower one is used first
const SPAN_PX = [34, 6];
const ESTIMATE_PX = [5, 3]; // dashes of a span with estimated ends
const APART_PX = 6; // least distance between two labels of a row
const FONT = "600 11.5px Arial, sans-serif";
const NEAR_S = 0.03; // closer marks share one position

/** The index of the first entry whose `key` is not below `limit`; entries are in order. */
export function lowerBound(list, key, limit) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(list[middle]) < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Positions of word labels, in pixels from the start of the speech, in two rows: each as near to its span as its
 * neighbours allow. A word without an end has no label yet.
 */
export function layoutLabels(scope) {
  const { labels, words, paint, rateHz, perSecond } = scope;
  paint.font = FONT;
  for (let i = labels.length; i < words.length && words[i]?.end; i++) {
    const { start, end, text } = words[i];
    const { width } = paint.measureText(text);
    const ideal = (((start + end) / 2) * perSecond) / rateHz - width / 2;
    const lefts = ROWS_PX.map((_, row) => {
      const before = labels.findLast((label) => label.row === row);
      return Math.max(ideal, before ? before.x + before.width + APART_PX : 0);
    });
    const row = lefts[1] < lefts[0] ? 1 : 0;
    labels.push({ x: lefts[row], width, row });
  }
  return labels;
}

export function drawWords(scope, view) {
  const { paint, colours, words, rateHz } = scope;
  const labels = layoutLabels(scope);
  paint.font = FONT;
  paint.textBaseline = "middle";
  const from = Math.max(0, lowerBound(words, (w) => w?.start ?? 0, view.startS * rateHz) - 4);
  const generated = scope.columns * (rateHz * 0.008);
  for (let i = from; i < words.length; i++) {
    const word = words[i];
    if (!word) continue;
    const x = view.x(word.start);
    if (x > scope.width + 100) break;
    const end = view.x(word.end || words[i + 1]?.start || Math.max(word.start, generated));
    const isNow = word.start < view.sample && view.sample < (word.end || Infinity);
    const isPlayed = word.start < view.sample;
    drawSpan(
      paint,
      x + 1,
      Math.max(1, end - x - 2),
      isNow ? colours.accent : isPlayed ? colours.played : colours.line,
      word.isEstimate,
    );
    if (!labels[i]) continue;
    const left = labels[i].x - view.startS * scope.perSecond;
    paint.fillStyle = isNow ? colours.accent : isPlayed ? colours.ink : colours.muted;
    paint.fillText(word.text, left, ROWS_PX[labels[i].row]);
  }
}

function drawSpan(paint, x, width, colour, isEstimate) {
  const [top, height] = SPAN_PX;
  paint.beginPath();
  paint.fillStyle = paint.strokeStyle = colour;
  if (isEstimate) {
    paint.fillRect(x, top - 1, 2, height + 2); // start of a word
    paint.lineWidth = height - 3;
    paint.setLineDash(ESTIMATE_PX);
    paint.moveTo(x + 5, top + height / 2);
    paint.lineTo(x + width, top + height / 2);
    paint.stroke();
    paint.setLineDash([]);
  } else {
    paint.roundRect(x, top, width, height, 3);
    paint.fill();
  }
}

/** Marks between two samples; of marks at one position, the most informative one. */
export function marksIn(scope, low, high) {
  const near = NEAR_S * scope.rateHz;
  const within = (list, at) => list.slice(lowerBound(list, at, low)).filter((one) => at(one) <= high);
  const eos = within(scope.eos, (e) => e.sample);
  const ends = new Set(eos.map((e) => Math.round(e.sample / near)));
  const isEnd = (sample) => [-1, 0, 1].some((k) => ends.has(Math.round(sample / near) + k));
  const seams = within(scope.seams, (s) => s).filter((seam) => !isEnd(seam));
  const gaps = [];
  for (const gap of scope.gaps.filter((one) => one.sample >= low && one.sample <= high)) {
    const isStall = gap.reason !== "text";
    const same = gaps.find((one) => Math.abs(one.sample - gap.sample) < near);
    if (same) same.isStall ||= isStall;
    else gaps.push({ sample: gap.sample, isStall });
  }
  return { eos, seams, gaps };
}

/** Draw seams, ends of segments, and playback gaps. */
export function drawMarks(scope, view) {
  const { paint, colours, rateHz } = scope;
  const low = view.startS * rateHz;
  const { eos, seams, gaps } = marksIn(scope, low, low + (scope.width / scope.perSecond) * rateHz);
  paint.strokeStyle = colours.muted;
  paint.globalAlpha = 0.7;
  paint.lineWidth = 1;
  paint.setLineDash([2, 4]);
  paint.beginPath();
  for (const seam of seams) {
    const x = Math.round(view.x(seam)) + 0.5;
    paint.moveTo(x, view.top);
    paint.lineTo(x, view.bottom);
  }
  paint.stroke();
  paint.setLineDash([]);
  paint.globalAlpha = 1;
  for (const { sample, forced } of eos)
    triangle(paint, view.x(sample), view.bottom, forced ? colours.stall : colours.ink, forced);
  for (const { sample, isStall } of gaps) {
    paint.fillStyle = isStall ? colours.stall : colours.muted;
    const x = view.x(sample);
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
