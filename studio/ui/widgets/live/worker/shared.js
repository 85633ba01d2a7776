// A stored utterance as the last one of the session, so that it can be replayed as it was heard.

import { Spectrum } from "../../sound/spectrum.js";
import { Utterance } from "./utterance.js";

const PIECE_S = 0.1; // of sound in one message to the player

/**
 * Load an utterance unless something is being spoken.
 * @param session
 * @param shared timeline of the trace's view, its pcm (Int16Array), and the addresses of the trace and the WAV
 */
export function loadShared(session, { timeline, pcm, urls }) {
  if (session.phase !== "idle") return;
  const { rate_hz: rateHz, text, words, runs } = timeline;
  const u = new Utterance(session.nextId++, "stream", rateHz);
  Object.assign(u, { mode: "shared", base: 0, isKnown: true, ended: true });
  u.spectrum = new Spectrum(rateHz);
  const sound = pcm.subarray(0, runs.at(-1)?.end ?? pcm.length); // a stopped utterance has more
  const piece = Math.round(PIECE_S * rateHz);
  for (let first = 0; first < sound.length; first += piece)
    u.packet({ first, pcm: sound.subarray(first, first + piece) });
  const pauses = timeline.pauses.filter((pause) => pause.sample > 0 && pause.sample < sound.length);
  u.gaps = pauses.map(({ sample, reason, start_ms, end_ms }) => {
    return { sample, reason, frames: Math.round(((end_ms - start_ms) * rateHz) / 1000) };
  });
  session.last = u;
  session.post({ type: "begin", play: null, id: u.id, mode: "shared", base: 0, from: 0, rateHz });
  const add = (event) => session.outbox.add(event);
  add({ type: "text", char_start: 0, text });
  for (const { i, text: word, char_start, char_end } of words)
    add({ type: "committed", i, word, char_start, char_end });
  add({ type: "columns", data: u.spectrum.push(sound) });
  for (const { i, start, end, source } of words) {
    if (start !== null) add({ type: "word_start", i, sample: start, source });
    if (end !== null) add({ type: "word_end", i, sample: end });
  }
  for (const { start, end, forced, p_eos: p } of timeline.segments) {
    add({ type: "segment", sample: start });
    add({ type: "eos", sample: end, forced, p });
  }
  for (const gap of u.gaps) add({ type: "gap", ...gap });
  session.outbox.flush();
  session.post({ type: "phase", phase: "idle", mode: "keyboard", finished: u.id });
  session.post({ type: "trace", utterance: u.id, ...urls });
}
