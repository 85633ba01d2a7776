// Plays the utterance with its pauses, so that playback time equals the trace's clock.

const HEADER_BYTES = 44;

/** A WAV blob of all runs with silence between them. */
export function wavAsHeard(pcm, runs, rateHz) {
  const first = runs[0]?.t_ms ?? 0;
  const last = runs.at(-1);
  const place = (run) => Math.round(((run.t_ms - first) * rateHz) / 1000);
  const samples = last ? place(last) + last.end - last.start : 0;
  const bytes = new ArrayBuffer(HEADER_BYTES + 2 * samples);
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
  const sound = new Int16Array(bytes, HEADER_BYTES, samples);
  for (const run of runs) sound.set(pcm.subarray(run.start, run.end).subarray(0, samples - place(run)), place(run));
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
