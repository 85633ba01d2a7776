// Positions of marks: samples to trace time and back, rows for overlaps, snapping.

const ZERO_MS = 10; // search range for a zero crossing
export const SNAPS = ["off", "zero crossing", "frame"];

/** Playback time of a sample in ms; an exclusive end belongs to the run before it, not to the run after a pause. */
export function msAt(scene, sample, isEnd = false) {
  const { runs } = scene.line;
  const run = runs.findLast((one) => (isEnd ? one.start < sample : one.start <= sample)) ?? runs[0];
  if (!run) return 0;
  return run.t_ms + ((Math.min(sample, run.end) - run.start) * 1000) / scene.rateHz;
}

/** The sample nearest to a time; in a pause the last one before it. */
export function sampleNear(scene, ms) {
  const { runs } = scene.line;
  const run = runs.findLast((one) => one.t_ms <= ms) ?? runs[0];
  if (!run) return 0;
  const sample = run.start + Math.round(((ms - run.t_ms) * scene.rateHz) / 1000);
  return Math.max(run.start, Math.min(run.end, sample));
}

/** Snap an edge; `how` is one of SNAPS. */
export function snapped(scene, sample, how) {
  if (how === "frame" && scene.frameSamples) {
    return Math.min(scene.pcm.length, Math.round(sample / scene.frameSamples) * scene.frameSamples);
  }
  return how === "zero crossing" ? zeroNear(scene.pcm, sample, Math.round((ZERO_MS * scene.rateHz) / 1000)) : sample;
}

/** The nearest zero crossing within `most` samples, else `sample`. */
export function zeroNear(pcm, sample, most) {
  const crosses = (at) => at > 0 && at < pcm.length && pcm[at - 1] < 0 !== pcm[at] < 0;
  for (let by = 0; by <= most; by++) {
    if (crosses(sample - by)) return sample - by;
    if (crosses(sample + by)) return sample + by;
  }
  return sample;
}

/** Distribute sorted marks over as few rows as possible, without overlaps within a row. */
export function rowsOf(marks) {
  const rows = [];
  for (const mark of marks) {
    const free = rows.find((row) => row.at(-1).end <= mark.start && row.at(-1).start < mark.start);
    if (free) free.push(mark);
    else rows.push([mark]);
  }
  return rows;
}
