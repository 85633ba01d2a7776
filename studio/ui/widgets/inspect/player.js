// Plays the utterance with its pauses, so that playback time equals the trace's clock.

import { silentWav } from "../sound/recording.js";

/** A WAV blob of all runs with silence between them. */
export function wavAsHeard(pcm, runs, rateHz) {
  const first = runs[0]?.t_ms ?? 0;
  const last = runs.at(-1);
  const offset = (run) => Math.round(((run.t_ms - first) * rateHz) / 1000);
  const samples = last ? offset(last) + last.end - last.start : 0;
  const { bytes, pcm: sound } = silentWav(samples, rateHz);
  for (const run of runs) sound.set(pcm.subarray(run.start, run.end).subarray(0, samples - offset(run)), offset(run));
  return new Blob([bytes], { type: "audio/wav" });
}

export class Player {
  /** `moved(ms)` is called on every position change; `changed()` on start and stop. */
  constructor(pcm, runs, rateHz, moved, changed) {
    this.firstMs = runs[0]?.t_ms ?? 0;
    const last = runs.at(-1);
    this.lastMs = last ? last.t_ms + (1000 * (last.end - last.start)) / rateHz : 0;
    this.atMs = this.firstMs;
    this.loop = null; // [startMs, endMs]
    this.untilMs = Infinity;
    this.moved = moved;
    this.url = URL.createObjectURL(wavAsHeard(pcm, runs, rateHz));
    this.audio = new Audio(this.url);
    this.audio.preload = "auto";
    this.audio.preservesPitch = true;
    for (const name of ["play", "pause", "ended"]) this.audio.addEventListener(name, changed);
    this.tick = this.tick.bind(this);
  }

  get isPlaying() {
    return !this.audio.paused && !this.audio.ended;
  }

  set speed(value) {
    this.audio.playbackRate = value;
  }

  get speed() {
    return this.audio.playbackRate;
  }

  /** Move the playhead to `ms`; outside the sound, playback starts at its nearest end. */
  place(ms) {
    this.atMs = ms;
    this.audio.currentTime = Math.max(0, Math.min(this.lastMs, ms) - this.firstMs) / 1000;
    this.moved(ms);
  }

  /** Play from the playhead, or from `startMs` to `endMs`. */
  async play(startMs = null, endMs = Infinity) {
    if (startMs !== null) this.place(startMs);
    else if (this.audio.ended || this.atMs >= this.lastMs - 1) this.place(this.loop?.[0] ?? this.firstMs);
    this.untilMs = endMs;
    try {
      await this.audio.play();
      requestAnimationFrame(this.tick);
    } catch (error) {
      if (error.name !== "AbortError") throw error; // paused before playback began
    }
  }

  pause() {
    this.audio.pause();
  }

  toggle() {
    if (this.isPlaying) this.pause();
    else this.play(this.loop && !this.isInLoop() ? this.loop[0] : null);
  }

  isInLoop() {
    return this.loop && this.atMs >= this.loop[0] && this.atMs < this.loop[1];
  }

  tick() {
    this.atMs = this.firstMs + 1000 * this.audio.currentTime;
    if (this.atMs >= this.untilMs) {
      this.pause();
      this.place(this.untilMs);
    } else if (this.loop && this.atMs >= this.loop[1]) {
      this.place(this.loop[0]);
    } else {
      this.moved(this.atMs);
    }
    if (this.isPlaying) requestAnimationFrame(this.tick);
  }

  close() {
    this.pause();
    this.audio.removeAttribute("src");
    URL.revokeObjectURL(this.url);
  }
}
