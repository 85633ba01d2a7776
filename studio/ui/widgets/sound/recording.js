// Received samples as one sound: with the gaps of their playback, as a WAV file, as a download.

const HEADER_BYTES = 44;
const URL_MS = 60_000; // after which a download must have begun

/**
 * A WAV file of `samples` zeros, 16 bits, mono: {bytes, pcm}, the file and a view of its samples to fill. Its metadata
 * have the comment, if any, as those of `studio/core/clips.py`.
 */
export function silentWav(samples, rateHz, comment = "") {
  const after = comment ? infoChunk(comment) : new Uint8Array();
  const bytes = new ArrayBuffer(HEADER_BYTES + 2 * samples + after.length);
  new Uint8Array(bytes).set(after, HEADER_BYTES + 2 * samples);
  const head = new DataView(bytes);
  const text = (at, word) => {
    for (let k = 0; k < word.length; k++) head.setUint8(at + k, word.charCodeAt(k));
  };
  text(0, "RIFF");
  head.setUint32(4, bytes.byteLength - 8, true);
  text(8, "WAVEfmt ");
  head.setUint32(16, 16, true);
  head.setUint16(20, 1, true);
  head.setUint16(22, 1, true);
  head.setUint32(24, rateHz, true);
  head.setUint32(28, 2 * rateHz, true);
  head.setUint16(32, 2, true);
  head.setUint16(34, 16, true);
  text(36, "data");
  head.setUint32(40, 2 * samples, true);
  return { bytes, pcm: new Int16Array(bytes, HEADER_BYTES, samples) };
}

/** A chunk LIST INFO with a comment (ICMT). */
function infoChunk(comment) {
  const text = `${comment}\0`;
  const isOdd = new TextEncoder().encode(text).length % 2;
  const chunk = new TextEncoder().encode(`LIST\0\0\0\0INFOICMT\0\0\0\0${text}${isOdd ? "\0" : ""}`);
  const head = new DataView(chunk.buffer);
  head.setUint32(4, chunk.length - 8, true);
  head.setUint32(16, chunk.length - 20, true);
  return chunk;
}

export const lengthAsHeard = (samples, gaps) => samples + gaps.reduce((sum, gap) => sum + gap.frames, 0);

/**
 * Write samples with the gaps of their playback to `into`.
 * @param chunks [{first, data}]; samples are counted from 0
 * @param gaps [{sample, frames}]: silence before a sample
 */
export function copyAsHeard(chunks, gaps, into, scale = 1) {
  const waits = gaps.toSorted((a, b) => a.sample - b.sample);
  let [shift, next] = [0, 0];
  for (const { first, data } of chunks) {
    for (let k = 0; k < data.length; k++) {
      while (next < waits.length && waits[next].sample <= first + k) shift += waits[next++].frames;
      into[first + k + shift] = data[k] * scale;
    }
  }
}

/** Download a blob as a file. */
export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), URL_MS);
}
