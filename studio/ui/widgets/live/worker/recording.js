// A played utterance as a WAV file, for the page's history.

import { copyAsHeard, lengthAsHeard, silentWav } from "../../sound/recording.js";

const MAX_BYTES = 30_000_000; // ten minutes at 24 kHz
const LEFT_OUT = ["sample"]; // of a speaker: not the user's text

/**
 * The message with an utterance's text, settings and sound as played; null where there is nothing to keep.
 * @param u the utterance
 * @param stoppedAt the sample at which Stop took effect; undefined: played to its end
 */
export function recordingOf(u, stoppedAt = Infinity) {
  const from = u.pcm[0]?.first ?? 0; // the first samples of a very long utterance are not stored
  const end = Math.min(u.samples, stoppedAt);
  if (LEFT_OUT.includes(u.mode) || end <= from) return null;
  const chunks = u.pcm
    .filter(({ first }) => first < end)
    .map(({ first, data }) => ({ first: first - from, data: data.subarray(0, end - first) }));
  let gaps = u.gaps.filter(({ sample }) => sample > from && sample < end);
  gaps = gaps.map(({ sample, frames }) => ({ sample: sample - from, frames }));
  if (2 * lengthAsHeard(end - from, gaps) > MAX_BYTES) gaps = []; // hours of waits for text
  if (2 * (end - from) > MAX_BYTES) return null;
  const comment = `Synthetic speech: voice ${u.settings?.voice || "default"}, Streaming-TTS Studio.`;
  const { bytes, pcm } = silentWav(lengthAsHeard(end - from, gaps), u.rateHz, comment);
  copyAsHeard(chunks, gaps, pcm);
  return {
    type: "recording",
    utterance: u.id,
    mode: u.mode,
    text: u.typed.text() || u.sentText,
    settings: u.settings,
    seconds: pcm.length / u.rateHz,
    wav: bytes,
  };
}
