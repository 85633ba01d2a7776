// The player: a ring buffer of samples, written by the Worker and read by the audio device. No sample is dropped.
//
// `read` and `write` count voice samples from 0; `currentFrame` counts context frames. A "turn" message marks each start
// and pause of playback, so that its receiver can map any context frame to a voice sample.

import { TimeStretch } from "./time_stretch.js";

const REPORT_S = 0.05; // to the Worker, which reports to the server
const CONFIRM_S = 0.016; // to the page, which must not light a word too early
const FADE_S = 0.005;

class Player extends AudioWorkletProcessor {
  constructor(options) {
    super();
    const { ringSamples, tap } = options.processorOptions;
    this.ring = new Float32Array(ringSamples);
    this.mask = ringSamples - 1;
    this.stretch = new TimeStretch(this.ring, sampleRate);
    this.fade = Math.round(FADE_S * sampleRate);
    this.tap = tap ? { pcm: new Float32Array(2048), used: 0, runs: [] } : null;
    this.worker = null;
    this.reset({ play: 0 });
    this.port.onmessage = ({ data }) => {
      this.worker = data.port;
      this.worker.onmessage = (message) => this.receive(message.data);
    };
  }

  reset({ play, gaps = [], prebuffer = 0, rebuffer = 0 }) {
    this.play = play;
    this.read = this.write = 0;
    this.playing = this.final = this.over = this.stopping = false;
    this.hasStarted = this.wasCut = false;
    this.gain = 1;
    this.lastValue = this.decayLeft = 0;
    this.gaps = gaps;
    this.resumeAt = -1;
    this.gapFrom = this.since = 0;
    this.underruns = 0;
    this.rate = this.nextRate = 1; // voice samples per output sample; changes at pauses
    this.prebuffer = prebuffer;
    this.rebuffer = rebuffer;
    this.mark = -1;
    this.nextReport = this.nextConfirm = 0;
  }

  receive(m) {
    if (m.type === "begin") {
      if (this.tap) this.flushTap();
      this.reset(m);
      this.turn(currentFrame);
    } else if (m.play !== this.play) return;
    else if (m.type === "pcm") this.append(m);
    else if (m.type === "final") this.final = true;
    else if (m.type === "cut") this.cut(m.sample);
    else if (m.type === "stop") {
      if (this.playing && !m.atOnce) this.stopping = true;
      else this.finish("stopped", currentFrame);
    } else if (m.type === "rebuffer") this.rebuffer = m.samples;
    else if (m.type === "rate") this.nextRate = m.rate;
  }

  append(m) {
    const pcm = new Int16Array(m.buffer, m.offset);
    const room = this.ring.length - (this.write - this.read);
    if (m.first !== this.write || pcm.length > room) {
      this.post({ type: "fault", play: this.play, first: m.first, expected: this.write, room });
      return;
    }
    if (m.mark >= 0) this.mark = m.mark;
    if (this.write === this.read) this.since = currentFrame;
    for (let k = 0; k < pcm.length; k++) this.ring[(this.write + k) & this.mask] = pcm[k] / 32768;
    this.write += pcm.length;
  }

  /**
   * Drop samples from `sample` on. If some were already played, playback returns to the cut, so that the replacement is
   * heard whole and counted as the server counts it.
   */
  cut(sample) {
    this.write = Math.min(this.write, sample);
    if (this.over || sample >= this.read) return;
    this.read = sample;
    this.stretch.begin(sample, this.rate);
    this.wasCut = this.hasStarted;
    if (this.playing) this.pause(currentFrame);
    else this.turn(currentFrame);
  }

  post(message) {
    this.port.postMessage(message);
    this.worker?.postMessage(message);
  }

  state(type, frame) {
    return {
      type,
      play: this.play,
      frame,
      sample: this.read,
      playing: this.playing,
      rate: this.rate,
      buffered: this.write - this.read,
      underruns: this.underruns,
      date: Date.now(),
    };
  }

  turn(frame, gap = 0) {
    this.post({ ...this.state("turn", frame), gap });
  }

  finish(type, frame) {
    this.playing = this.stopping = false;
    this.over = true;
    this.turn(frame);
    this.post(this.state(type, frame));
  }

  /** Start playback if samples are ready and no replayed gap is in progress. */
  resume(frame) {
    const ready = this.write - this.read;
    if (this.over || frame < this.resumeAt || ready === 0) return false;
    // Buffer some samples so that the next packet arrives in time, but never longer than these samples last.
    const least = this.hasStarted ? this.rebuffer : this.prebuffer;
    if (ready < least && !this.final && frame - this.since < least) return false;
    const gap = this.hasStarted && !this.wasCut ? frame - this.gapFrom : 0;
    if (this.hasStarted) {
      this.gain = 0;
      if (this.resumeAt < 0 && !this.wasCut) this.underruns++;
    }
    this.wasCut = false;
    this.hasStarted = this.playing = true;
    this.resumeAt = -1;
    this.rate = this.nextRate;
    this.stretch.begin(this.read, this.rate);
    this.turn(frame, gap);
    return true;
  }

  /** Pause from `frame` on: the end, a replayed gap, or an underrun. */
  pause(frame) {
    this.playing = false;
    this.decayLeft = this.fade;
    if (this.gaps.length && this.gaps[0][0] === this.read) {
      this.gapFrom = frame;
      this.resumeAt = frame + this.gaps.shift()[1];
      this.turn(frame);
    } else if (this.final) this.finish("done", frame);
    else {
      this.gapFrom = frame;
      this.turn(frame);
    }
  }

  /** Fade from the last value to silence, to avoid a click; until a replayed gap or the block ends. */
  silence(out, from) {
    const wait = this.resumeAt - (currentFrame + from);
    const to = wait > 0 ? Math.min(out.length, from + wait) : out.length;
    for (let k = from; k < to; k++) {
      out[k] = this.decayLeft > 0 ? (this.lastValue * this.decayLeft--) / this.fade : 0;
    }
    return to;
  }

  /** Copy time-stretched samples to `out[from..]`; returns the end index. */
  copyStretched(out, from) {
    let k = from;
    for (; k < out.length; k++) {
      if (this.stopping) {
        this.gain = Math.max(0, this.gain - 1 / this.fade);
        if (this.gain === 0) break;
      }
      const value = this.stretch.next(this.write);
      if (value === undefined) break;
      out[k] = value * this.gain;
      if (!this.stopping) this.gain = Math.min(1, this.gain + 1 / this.fade);
    }
    if (k > from) this.lastValue = out[k - 1];
    this.read = Math.max(this.read, Math.min(this.write, this.stretch.sample));
    return k;
  }

  /** Copy voice samples to `out[from..]`; returns the end index. */
  copySamples(out, from) {
    if (this.rate !== 1) return this.copyStretched(out, from);
    let stop = Math.min(out.length, from + this.write - this.read);
    if (this.gaps.length) stop = Math.min(stop, from + Math.max(0, this.gaps[0][0] - this.read));
    const first = this.read;
    const step = 1 / this.fade;
    let k = from;
    for (; k < stop; k++) {
      if (this.stopping) {
        this.gain = Math.max(0, this.gain - step);
        if (this.gain === 0) break;
      }
      let value = this.ring[this.read++ & this.mask];
      if (this.stopping) value *= this.gain;
      else if (this.gain < 1) {
        value *= this.gain;
        this.gain = Math.min(1, this.gain + step);
      }
      out[k] = value;
    }
    if (k > from) this.lastValue = out[k - 1];
    if (this.tap && k > from) this.tap.runs.push([this.tap.used + from, first, k - from]);
    return k;
  }

  process(_inputs, outputs) {
    const out = outputs[0][0];
    if (this.play === 0 || this.over) {
      this.silence(out, 0);
      return true;
    }
    let k = 0;
    while (k < out.length) {
      const frame = currentFrame + k;
      if (!this.playing) {
        if (!this.resume(frame)) {
          if (this.final && !this.over && this.write === this.read && this.resumeAt < 0) this.finish("done", frame);
          k = this.silence(out, k);
        }
        continue;
      }
      const at = this.copySamples(out, k);
      if (this.stopping && this.gain === 0) {
        this.decayLeft = 0;
        this.finish("stopped", currentFrame + at);
      } else if (at === k) this.pause(frame);
      k = at;
    }
    if (this.mark >= 0 && this.read > this.mark) {
      this.mark = -1;
      this.post(this.state("audible", currentFrame));
    }
    if (!this.over && currentFrame >= this.nextReport) {
      this.nextReport = currentFrame + REPORT_S * sampleRate;
      this.worker?.postMessage(this.state("report", currentFrame + out.length));
    }
    if (this.playing && currentFrame >= this.nextConfirm) {
      this.nextConfirm = currentFrame + CONFIRM_S * sampleRate;
      this.port.postMessage({ type: "confirm", play: this.play, sample: this.read });
    }
    if (this.tap) this.record(out);
    return true;
  }

  record(out) {
    this.tap.pcm.set(out, this.tap.used);
    this.tap.used += out.length;
    if (this.tap.used === this.tap.pcm.length || this.over) this.flushTap();
  }

  flushTap() {
    const { pcm, used, runs } = this.tap;
    if (used) this.port.postMessage({ type: "tap", play: this.play, pcm: pcm.slice(0, used), runs });
    this.tap.used = 0;
    this.tap.runs = [];
  }
}

registerProcessor("studio-player", Player);
