// Plays one of several utterances and switches to another at the same axis position without a gap.

const LEAD_S = 0.015; // scheduling lead, so that playback starts at a known time
const FADE_S = 0.012; // cross-fade length

export class Mixer {
  /**
   * `takes` have pcm (Int16Array) and rateHz; `maps()` returns the active time map of each. `moved(ms)` is called on every
   * position change, `changed()` on start, stop and switch.
   */
  constructor(takes, maps, moved, changed) {
    this.takes = takes;
    this.maps = maps;
    this.moved = moved;
    this.changed = changed;
    this.context = null;
    this.heard = 0;
    this.atMs = 0; // on the axis
    this.loop = null; // [startMs, endMs]
    this.untilMs = Infinity;
    this.voice = null; // playing source: {take, source, gain, startS (of the context), offsetMs (of its own sound)}
    this.buffers = [];
    this.tick = this.tick.bind(this);
  }

  get isPlaying() {
    return this.voice !== null;
  }

  get map() {
    return this.maps()[this.heard];
  }

  /** End of the played utterance on the axis, ms. */
  get lastMs() {
    return this.map.axis((1000 * this.takes[this.heard].pcm.length) / this.takes[this.heard].rateHz);
  }

  get firstMs() {
    return 0;
  }

  /** Move the playhead; playback continues from there. */
  place(ms) {
    this.atMs = Math.min(Math.max(0, ms), this.lastMs);
    if (this.isPlaying) this.sound();
    this.moved(this.atMs);
  }

  async play(startMs = null, endMs = Infinity) {
    this.context ??= new AudioContext();
    if (this.context.state !== "running") await this.context.resume();
    if (startMs !== null) this.atMs = startMs;
    else if (this.atMs >= this.lastMs - 1) this.atMs = this.loop?.[0] ?? 0;
    else if (this.loop && !(this.atMs >= this.loop[0] && this.atMs < this.loop[1])) this.atMs = this.loop[0];
    this.untilMs = endMs;
    const wasPlaying = this.isPlaying;
    this.sound();
    if (!wasPlaying) requestAnimationFrame(this.tick);
    this.changed();
  }

  pause() {
    if (!this.isPlaying) return;
    this.atMs = this.nowMs(this.context.currentTime);
    this.fadeOut(this.context.currentTime);
    this.voice = null;
    this.changed();
  }

  toggle() {
    if (this.isPlaying) this.pause();
    else this.play();
  }

  /** Switch to another utterance at the same position. */
  hear(number) {
    if (number === this.heard || !this.takes[number]) return;
    if (!this.isPlaying) {
      this.heard = number;
      this.atMs = Math.min(this.atMs, this.lastMs);
    } else {
      const atS = this.context.currentTime + LEAD_S;
      this.atMs = this.nowMs(atS);
      this.heard = number;
      if (this.atMs >= this.lastMs) this.pause();
      else this.sound(atS);
    }
    this.moved(this.atMs);
    this.changed();
  }

  /** The time maps changed: move the playhead to the same moment of the played utterance. */
  remap(before) {
    const own = before[this.heard].own(this.atMs);
    this.atMs = this.map.axis(own);
    this.moved(this.atMs);
  }

  /** Start the selected utterance at `atMs`, and fade out the previous source. */
  sound(atS = this.context.currentTime + LEAD_S) {
    const { context, heard } = this;
    if (this.voice) this.fadeOut(atS);
    const source = new AudioBufferSourceNode(context, { buffer: this.buffer(heard) });
    const gain = new GainNode(context, { gain: 0 });
    const offsetMs = Math.max(0, this.map.own(this.atMs));
    gain.gain.setValueAtTime(0, atS);
    gain.gain.linearRampToValueAtTime(1, atS + FADE_S);
    source.connect(gain).connect(context.destination);
    source.start(atS, offsetMs / 1000);
    this.voice = { take: heard, source, gain, startS: atS, offsetMs };
    this.before = this.current; // for tests: the previous and the current source
    this.current = this.voice;
  }

  fadeOut(atS) {
    const { source, gain } = this.voice;
    gain.gain.cancelScheduledValues(atS);
    gain.gain.setValueAtTime(1, atS);
    gain.gain.linearRampToValueAtTime(0, atS + FADE_S);
    source.stop(atS + FADE_S);
    this.voice.stopS = atS + FADE_S;
  }

  buffer(number) {
    const { pcm, rateHz } = this.takes[number];
    if (!this.buffers[number]) {
      const buffer = new AudioBuffer({ length: Math.max(1, pcm.length), sampleRate: rateHz });
      const samples = buffer.getChannelData(0);
      for (let k = 0; k < pcm.length; k++) samples[k] = pcm[k] / 32768;
      this.buffers[number] = buffer;
    }
    return this.buffers[number];
  }

  /** Axis position at a time of the audio context. */
  nowMs(atS) {
    const { offsetMs, startS } = this.voice;
    return this.map.axis(offsetMs + 1000 * Math.max(0, atS - startS));
  }

  tick() {
    if (!this.isPlaying) return;
    this.atMs = this.nowMs(this.context.currentTime);
    if (this.loop && this.atMs >= this.loop[1]) {
      this.place(this.loop[0]);
    } else if (this.atMs >= Math.min(this.untilMs, this.lastMs)) {
      this.pause();
      this.atMs = Math.min(this.untilMs, this.lastMs);
    }
    this.moved(this.atMs);
    requestAnimationFrame(this.tick);
  }

  close() {
    this.pause();
    this.context?.close();
  }
}
