// The sounds of one screen: plays decoded buffers, one audible at a time, and records the intervals played.
// With `together`, all sources run in sync and switching only changes their gains.

const FADE_S = 0.005;
const LEAD_S = 0.01; // common start time of all sources, in the future
const TICK_MS = 50;
const WAKE_MS = 3000;
const SHORTEST_REGION_S = 0.2;
const WHOLE_S = 0.02; // tolerance at the end of a sound

/** The union of the intervals of a sound that were played. */
export class Spans {
  /** `intervals` is a list of [from, to] in seconds. */
  constructor(intervals = []) {
    this.list = [];
    for (const [from, to] of intervals) this.add(from, to);
  }

  add(from, to) {
    if (!(to > from)) return;
    const disjoint = this.list.filter(([a, b]) => b < from || a > to);
    for (const [a, b] of this.list) {
      if (b < from || a > to) continue;
      from = Math.min(from, a);
      to = Math.max(to, b);
    }
    this.list = [...disjoint, [from, to]].sort((one, other) => one[0] - other[0]);
  }

  get seconds() {
    return this.list.reduce((sum, [from, to]) => sum + to - from, 0);
  }
}

export class Deck {
  /** `buffers`: AudioBuffers by slot; `playback`: [{plays, spans}] from before a reload; `on` has `changed()`, `silent()` and optionally `mayPlay(slot)`. */
  constructor(context, buffers, { together = false, loop = false, playback = [], on }) {
    this.context = context;
    this.together = together;
    this.loop = loop;
    this.on = on;
    const longest = Math.max(...buffers.map((b) => b.length));
    this.slots = buffers.map((buffer, slot) => ({
      buffer: together ? padded(buffer, longest) : buffer,
      seconds: buffer.duration,
      at: 0, // position in seconds while paused
      plays: playback[slot]?.plays ?? 0,
      spans: new Spans(playback[slot]?.spans),
    }));
    this.active = -1;
    this.isPlaying = false;
    this.running = [];
    this.region = null; // {from, to} in seconds that is looped; only with `together`
  }

  /** Loop a region; null ends the loop. */
  repeat(from, to) {
    const longest = Math.max(...this.slots.map((one) => one.seconds));
    const isRegion = this.together && from !== null && Math.min(to, longest) - Math.max(0, from) >= SHORTEST_REGION_S;
    this.region = isRegion ? { from: Math.max(0, from), to: Math.min(to, longest) } : null;
    if (isRegion && this.isPlaying) this.jump(this.region.from);
    this.on.changed();
    return isRegion;
  }

  /** Continue at another position without counting a play. */
  jump(from) {
    const slot = this.active;
    this.stop();
    this.begin(slot, from);
    this.slots[slot].plays -= 1;
  }

  /** Where a slot's playhead is, in seconds. */
  position(slot) {
    if (!this.isPlaying || (slot !== this.active && !this.together)) return this.slots[slot].at;
    const s = Math.max(this.from, this.from + this.context.currentTime - this.startedS);
    const { seconds } = this.slots[slot];
    return this.loop ? s % seconds : Math.min(s, seconds);
  }

  heardMs(slot) {
    const { spans, seconds } = this.slots[slot];
    const s = spans.seconds;
    return Math.round(1000 * (s >= seconds - WHOLE_S ? seconds : s));
  }

  /** Whether this share of a slot was played. */
  isHeard(slot, share) {
    return this.heardMs(slot) >= Math.floor(1000 * share * (this.slots[slot].seconds - WHOLE_S));
  }

  toggle(slot) {
    return this.isPlaying && slot === this.active ? this.pause() : this.play(slot);
  }

  async play(slot, from = null) {
    if (this.on.mayPlay?.(slot) === false) return undefined;
    const request = (this.request ?? 0) + 1;
    this.request = request;
    if (!(await this.wake())) return this.on.silent();
    if (request !== this.request || this.isClosed) return undefined; // superseded
    if (this.isPlaying && this.together && from === null && this.position(slot) < this.slots[slot].seconds) {
      return this.switch(slot);
    }
    const atS = from ?? (this.together && this.active >= 0 ? this.position(this.active) : this.position(slot));
    this.stop();
    this.begin(slot, atS >= this.slots[slot].seconds - WHOLE_S ? 0 : atS);
    return undefined;
  }

  begin(slot, from) {
    const { context } = this;
    this.active = slot;
    this.from = this.markedS = from;
    this.startedS = context.currentTime + LEAD_S;
    const starting = this.together ? this.slots.keys() : [slot];
    this.running = Array.from(starting, (k) => {
      const source = new AudioBufferSourceNode(context, { buffer: this.slots[k].buffer, loop: this.loop });
      const gain = new GainNode(context, { gain: k === slot && from === 0 ? 1 : 0 });
      if (k === slot && from > 0)
        gain.gain.setValueAtTime(0, this.startedS).linearRampToValueAtTime(1, this.startedS + FADE_S);
      source.connect(gain).connect(context.destination);
      source.start(this.startedS, from);
      return { slot: k, source, gain };
    });
    this.slots[slot].plays += 1;
    this.isPlaying = true;
    this.timer = setInterval(() => this.tick(), TICK_MS);
    this.on.changed();
  }

  switch(slot) {
    if (slot === this.active) return;
    this.mark();
    for (const one of this.running) fade(this.context, one.gain, one.slot === slot ? 1 : 0);
    this.active = slot;
    this.markedS = this.position(slot);
    this.slots[slot].plays += 1;
    this.on.changed();
  }

  pause() {
    this.request = (this.request ?? 0) + 1;
    if (!this.isPlaying) return;
    this.stop();
    this.on.changed();
  }

  /** Move the playhead; skipped audio does not count as played. */
  seek(slot, atS) {
    if (this.isPlaying && (slot === this.active || this.together)) return void this.play(this.active, atS);
    for (const one of this.together ? this.slots : [this.slots[slot]]) one.at = Math.min(atS, one.seconds);
    this.on.changed();
  }

  /** Rewind a sound and clear its intervals; its play count stays. */
  rewind(slot) {
    this.pause();
    Object.assign(this.slots[slot], { at: 0, spans: new Spans() });
    this.on.changed();
  }

  stop() {
    if (!this.isPlaying) return;
    this.mark();
    const atS = this.position(this.active);
    for (const one of this.together ? this.slots : [this.slots[this.active]]) one.at = Math.min(atS, one.seconds);
    this.isPlaying = false;
    clearInterval(this.timer);
    for (const { source, gain } of this.running) {
      fade(this.context, gain, 0);
      source.stop(this.context.currentTime + FADE_S);
    }
    this.running = [];
  }

  /** Add the interval played since the last call. */
  mark() {
    const atS = this.position(this.active);
    const { spans, seconds } = this.slots[this.active];
    if (atS >= this.markedS) spans.add(this.markedS, atS);
    else if (this.loop) spans.add(this.markedS, seconds);
    this.markedS = atS;
  }

  tick() {
    this.mark();
    if (this.region && this.position(this.active) >= Math.min(this.region.to, this.slots[this.active].seconds)) {
      return this.jump(Math.min(this.region.from, this.slots[this.active].seconds - WHOLE_S));
    }
    const { seconds } = this.slots[this.active];
    if (!this.loop && this.position(this.active) >= seconds) {
      this.stop();
      for (const one of this.slots) if (this.together || one === this.slots[this.active]) one.at = 0;
    }
    this.on.changed();
  }

  async wake() {
    const { context } = this;
    if (context.state === "running") return true;
    const timeout = new Promise((done) => setTimeout(done, WAKE_MS));
    await Promise.race([context.resume().catch(() => {}), timeout]);
    return context.state === "running";
  }

  /** Playback state for the draft. */
  get playback() {
    return this.slots.map(({ plays, spans }) => ({ plays, spans: spans.list }));
  }

  close() {
    this.isClosed = true;
    this.stop();
  }
}

function fade(context, gain, to) {
  const now = context.currentTime;
  gain.gain.cancelScheduledValues(now);
  gain.gain.setValueAtTime(gain.gain.value, now).linearRampToValueAtTime(to, now + FADE_S);
}

/** The buffer with silence appended up to `length` samples. */
function padded(buffer, length) {
  if (buffer.length === length) return buffer;
  const longer = new AudioBuffer({ length, numberOfChannels: buffer.numberOfChannels, sampleRate: buffer.sampleRate });
  for (let c = 0; c < buffer.numberOfChannels; c++) longer.copyToChannel(buffer.getChannelData(c), c);
  return longer;
}

const NOISE_RMS = 0.07; // the level of normalized clips, about -23 dBFS

/** Two seconds of noise with the long-term spectrum and syllable rate of speech, for looping. */
export function speechNoise(context) {
  const rateHz = context.sampleRate;
  const buffer = new AudioBuffer({ length: 2 * rateHz, numberOfChannels: 1, sampleRate: rateHz });
  const out = buffer.getChannelData(0);
  let low = 0;
  let sum = 0;
  for (let t = 0; t < out.length; t++) {
    low += ((2 * Math.PI * 500) / rateHz) * (2 * Math.random() - 1 - low); // -6 dB per octave above 500 Hz
    out[t] = low * (1 - 0.8 * Math.cos((2 * Math.PI * 4 * t) / rateHz)); // four syllables a second
    sum += out[t] ** 2;
  }
  const scale = NOISE_RMS / Math.sqrt(sum / out.length);
  for (let t = 0; t < out.length; t++) out[t] *= scale;
  return buffer;
}
