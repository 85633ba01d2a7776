// Streaming log-mel spectrogram of PCM: one column of bytes per hop. Runs in the Worker.

export const ROWS = 96;
export const HOP_S = 0.008;
const WINDOW_S = 0.025;
const FLOOR_DB = -78;
const CEILING_DB = -8;

/** In-place radix-2 FFT of a fixed size. */
class Fft {
  constructor(size) {
    this.size = size;
    this.cos = Float32Array.from({ length: size / 2 }, (_, k) => Math.cos((2 * Math.PI * k) / size));
    this.sin = Float32Array.from({ length: size / 2 }, (_, k) => -Math.sin((2 * Math.PI * k) / size));
    const bits = Math.log2(size);
    this.order = Uint32Array.from({ length: size }, (_, k) => {
      let r = 0;
      for (let b = 0; b < bits; b++) r |= ((k >> b) & 1) << (bits - 1 - b);
      return r;
    });
  }

  run(re, im) {
    for (let k = 0; k < this.size; k++) {
      const r = this.order[k];
      if (r > k) [re[k], re[r], im[k], im[r]] = [re[r], re[k], im[r], im[k]];
    }
    for (let half = 1; half < this.size; half *= 2) {
      const stride = this.size / (2 * half);
      for (let start = 0; start < this.size; start += 2 * half) {
        for (let k = 0; k < half; k++) {
          const a = start + k;
          const b = a + half;
          const c = this.cos[k * stride];
          const s = this.sin[k * stride];
          const x = re[b] * c - im[b] * s;
          const y = re[b] * s + im[b] * c;
          re[b] = re[a] - x;
          im[b] = im[a] - y;
          re[a] += x;
          im[a] += y;
        }
      }
    }
  }
}

const mel = (hz) => 2595 * Math.log10(1 + hz / 700);
const hertz = (m) => 700 * (10 ** (m / 2595) - 1);

/** Vertical position of a frequency, 0 (top) to 1. */
export function heightOf(hz, rateHz) {
  return 1 - (mel(hz) - mel(50)) / (mel(topHz(rateHz)) - mel(50));
}

export const topHz = (rateHz) => Math.min(9000, rateHz / 2);

export class Spectrum {
  constructor(rateHz) {
    this.hop = Math.round(HOP_S * rateHz);
    this.window = Math.round(WINDOW_S * rateHz);
    const size = 2 ** Math.ceil(Math.log2(this.window * 1.5));
    this.fft = new Fft(size);
    this.re = new Float32Array(size);
    this.im = new Float32Array(size);
    this.hann = Float32Array.from(
      { length: this.window },
      (_, k) => 0.5 - 0.5 * Math.cos((2 * Math.PI * (k + 0.5)) / this.window),
    );
    this.scale = 4 / this.window;
    const low = mel(50);
    const high = mel(topHz(rateHz));
    this.bins = Float32Array.from(
      { length: ROWS },
      (_, r) => (hertz(low + ((high - low) * r) / (ROWS - 1)) * size) / rateHz,
    );
    // 6 dB per octave, so that upper formants are visible beside lower ones.
    this.tilt = Float32Array.from(
      { length: ROWS },
      (_, r) => 3 * Math.log2(Math.max(1, (this.bins[r] * rateHz) / size / 500)),
    );
    this.past = new Float32Array(this.window);
    this.since = 0;
  }

  /** The columns completed by these samples: Uint8Array [columns * ROWS], low rows first. */
  push(pcm) {
    const out = new Uint8Array(Math.floor((this.since + pcm.length) / this.hop) * ROWS);
    let filled = 0;
    for (let from = 0; from < pcm.length; ) {
      const take = Math.min(pcm.length - from, this.hop - this.since);
      this.past.copyWithin(0, take);
      for (let k = 0; k < take; k++) this.past[this.window - take + k] = pcm[from + k] / 32768;
      from += take;
      this.since += take;
      if (this.since === this.hop) {
        this.since = 0;
        this.column(out.subarray(filled, filled + ROWS));
        filled += ROWS;
      }
    }
    return out;
  }

  /** Continue from `sample`; `before` (Int16Array) are the samples before it. */
  cut(sample, before) {
    this.since = sample % this.hop;
    this.past.fill(0);
    const used = before.subarray(Math.max(0, before.length - this.window));
    for (let k = 0; k < used.length; k++) this.past[this.window - used.length + k] = used[k] / 32768;
  }

  column(out) {
    this.re.fill(0);
    this.im.fill(0);
    for (let k = 0; k < this.window; k++) this.re[k] = this.past[k] * this.hann[k];
    this.fft.run(this.re, this.im);
    for (let r = 0; r < ROWS; r++) {
      const low = Math.floor(this.bins[r]);
      const high = Math.max(low + 1, Math.floor(this.bins[Math.min(ROWS - 1, r + 1)]));
      let power = 0;
      for (let k = low; k < high; k++) power = Math.max(power, this.re[k] ** 2 + this.im[k] ** 2);
      const db = 10 * Math.log10(power * this.scale ** 2 + 1e-12) + this.tilt[r];
      out[r] = Math.max(0, Math.min(255, (255 * (db - FLOOR_DB)) / (CEILING_DB - FLOOR_DB)));
    }
  }
}
