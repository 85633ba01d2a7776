// A canvas with sound as a clip, recorded by the browser in real time.

import { copyAsHeard, lengthAsHeard } from "../sound/recording.js";

const FRAME_MS = 33;
const FRAMES_PER_S = 30;
const BITS_PER_S = 2_500_000;
const START_S = 0.1; // until the first sample
const MIMES = [
  "video/mp4;codecs=avc1.42E01F,mp4a.40.2",
  "video/mp4;codecs=avc1.42E01F,opus",
  "video/mp4;codecs=vp9,opus", // browsers without licensed codecs
  "video/webm;codecs=vp9,opus",
  "video/webm;codecs=vp8,opus",
  "video/webm",
];

/** The best type of clip that this browser records; undefined if it records none. */
export const clipMime = () => globalThis.MediaRecorder && MIMES.find((mime) => MediaRecorder.isTypeSupported(mime));

export const clipEnding = (mime) => (mime.includes("mp4") ? "mp4" : "webm");

/**
 * Record a clip; resolves to its blob.
 * @param context the audio context; the clip is not audible
 * @param clip size {width, height}, mime, lastMs, draw(canvas, tMs), and sounds [{sound, startMs}]: each with chunks
 *   [{first, data}], gaps [{sample, frames}], samples and rateHz
 * @param progress called with the remaining seconds
 */
export async function recordClip(context, { size, mime, lastMs, draw, sounds }, progress) {
  const canvas = Object.assign(document.createElement("canvas"), size);
  await context.resume();
  const into = context.createMediaStreamDestination();
  const tracks = [...canvas.captureStream(FRAMES_PER_S).getVideoTracks(), ...into.stream.getAudioTracks()];
  const recorder = new MediaRecorder(new MediaStream(tracks), { mimeType: mime, videoBitsPerSecond: BITS_PER_S });
  const parts = [];
  recorder.ondataavailable = ({ data }) => parts.push(data);
  draw(canvas, 0);
  recorder.start();
  const beganS = context.currentTime + START_S;
  const sources = sounds.map(({ sound, startMs }) => play(context, into, sound, beganS + startMs / 1000));
  /** @type {Promise<void>} */
  const played = new Promise((resolve) => {
    const timer = setInterval(() => {
      const tMs = (context.currentTime - beganS) * 1000;
      draw(canvas, Math.max(0, tMs));
      progress(Math.max(0, Math.ceil((lastMs - tMs) / 1000)));
      if (tMs < lastMs) return;
      clearInterval(timer);
      resolve();
    }, FRAME_MS);
  });
  await played;
  for (const source of sources) source.disconnect();
  await new Promise((resolve) => {
    recorder.onstop = resolve;
    recorder.stop();
  });
  return new Blob(parts, { type: mime });
}

/** Play samples at a context time, with the gaps of their playback. */
function play(context, into, { chunks, gaps, samples, rateHz }, atS) {
  const pcm = new Float32Array(Math.max(1, lengthAsHeard(samples, gaps)));
  copyAsHeard(chunks, gaps, pcm, 1 / 32768);
  const buffer = context.createBuffer(1, pcm.length, rateHz);
  buffer.copyToChannel(pcm, 0);
  const source = new AudioBufferSourceNode(context, { buffer });
  source.connect(into);
  source.start(Math.max(context.currentTime, atS));
  return source;
}
