// Time stretching at constant pitch: waveform similarity overlap-add (WSOLA; Verhelst and Roelands, ICASSP 1993).
//
// Overlapping blocks of fixed length are added. Each is taken from near the position given by the rate, where it
// correlates best with the continuation of the block before it.

const BLOCK_S = 0.012;
const SEARCH_S = 0.006;
const STRIDE = 2; // of the compared samples

export class TimeStretch {
  constructor(ring, rateHz) {
    this.ring = ring;
    this.mask = ring.length - 1;
    this.size = Math.round(BLOCK_S * rateHz);
    this.reach = Math.round(SEARCH_S * rateHz);
    this.block = new Float32Array(this.size);
    this.fadeIn = Float32Array.from(
      { length: this.size },
      (_, k) => 0.5 - 0.5 * Math.cos((Math.PI * (k + 0.5)) / this.size),
    );
    this.begin(0, 1);
  }

  /** Continue from `sample`, at `rate` voice samples per output sample. */
  begin(sample, rate) {
    this.tail = this.position = sample; // continuation of the last block; position by the rate
    this.rate = rate;
    this.at = this.size; // index in the current block
  }

  /** The voice sample being output. */
  get sample() {
    if (this.at === this.size) return Math.min(this.tail, Math.max(0, Math.round(this.position)));
    return Math.max(0, Math.round(this.position - (this.size - this.at) * this.rate));
  }

  /** The next value; undefined if all samples before `write` were output. */
  next(write) {
    if (this.at === this.size && !this.nextBlock(write)) {
      if (this.tail >= write) return undefined;
      this.position = this.tail + 1; // too few samples to search: copy
      return this.ring[this.tail++ & this.mask];
    }
    return this.block[this.at++];
  }

  nextBlock(write) {
    const { ring, mask, size, reach, tail } = this;
    const position = this.position + size * this.rate;
    const nominal = Math.round(position) - size;
    const first = Math.max(0, nominal - reach);
    if (Math.max(tail, nominal + reach) + 2 * size > write) return false;
    let [best, bestScore] = [nominal, -Infinity];
    for (let from = first; from <= nominal + reach; from++) {
      let product = 0;
      let power = 1e-6;
      for (let k = 0; k < size; k += STRIDE) {
        const value = ring[(from + k) & mask];
        product += value * ring[(tail + k) & mask];
        power += value * value;
      }
      const score = product / Math.sqrt(power);
      if (score > bestScore) [best, bestScore] = [from, score];
    }
    for (let k = 0; k < size; k++) {
      const into = this.fadeIn[k];
      this.block[k] = (1 - into) * ring[(tail + k) & mask] + into * ring[(best + k) & mask];
    }
    this.tail = best + size;
    this.position = position;
    this.at = 0;
    return true;
  }
}
