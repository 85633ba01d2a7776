// Slower speech of the same pitch: waveform similarity overlap-add (WSOLA; Verhelst and Roelands, ICASSP 1993).
//
// Blocks of a fixed length are laid over each other; each is taken from near the place that the rate asks for, where it
// continues most like the one before.

const BLOCK_S = 0.012;
const SEARCH_S = 0.006;
const STRIDE = 2; // samples between those that are compared

export class Stretch {
  constructor(ring, rateHz) {
    this.ring = ring;
    this.mask = ring.length - 1;
    this.size = Math.round(BLOCK_S * rateHz);
    this.reach = Math.round(SEARCH_S * rateHz);
    this.block = new Float32Array(this.size);
    this.fadeIn = Float32Array.from({ length: this.size }, (_, k) => 0.5 - 0.5 * Math.cos((Math.PI * (k + 0.5)) / this.size));
    this.begin(0, 1);
  }

  /** Go on from a sample at `rate` samples of the voice to each one heard. */
  begin(sample, rate) {
    this.tail = this.place = sample; // where the last block would go on, and where the rate is
    this.rate = rate;
    this.at = this.size; // of the block that is being heard
  }

  /** Which sample is heard now. */
  get sample() {
    if (this.at === this.size) return Math.min(this.tail, Math.max(0, Math.round(this.place)));
    return Math.max(0, Math.round(this.place - (this.size - this.at) * this.rate));
  }

  /** The next value; undefined where all that was written before `write` has been heard. */
  next(write) {
    if (this.at === this.size && !this.make(write)) {
      if (this.tail >= write) return undefined;
      this.place = this.tail + 1; // too little is there to choose from: as it comes
      return this.ring[this.tail++ & this.mask];
    }
    return this.block[this.at++];
  }

  make(write) {
    const { ring, mask, size, reach, tail } = this;
    const place = this.place + size * this.rate;
    const nominal = Math.round(place) - size;
    const first = Math.max(0, nominal - reach);
    if (Math.max(tail, nominal + reach) + 2 * size > write) return false;
    let [best, most] = [nominal, -Infinity];
    for (let from = first; from <= nominal + reach; from++) {
      let like = 0;
      let power = 1e-6;
      for (let k = 0; k < size; k += STRIDE) {
        const value = ring[(from + k) & mask];
        like += value * ring[(tail + k) & mask];
        power += value * value;
      }
      const score = like / Math.sqrt(power);
      if (score > most) [best, most] = [from, score];
    }
    for (let k = 0; k < size; k++) {
      const into = this.fadeIn[k];
      this.block[k] = (1 - into) * ring[(tail + k) & mask] + into * ring[(best + k) & mask];
    }
    this.tail = best + size;
    this.place = place;
    this.at = 0;
    return true;
  }
}
