// The voice sample at the listener's ear, from the player's state changes and the latency of the audio device.

const MAX_TURNS = 512;

export class PlaybackClock {
  constructor(context) {
    this.context = context;
    this.turns = [];
    this.heardS = 0;
    this.confirmed = { play: 0, sample: 0 }; // a lower bound of the samples that have left the player
  }

  /** From context frame `frame` on, the player plays from `sample`, or pauses there. */
  turn(turn) {
    this.turns.push(turn);
    this.confirmed = turn;
    if (this.turns.length > MAX_TURNS) this.turns.shift();
  }

  /** Context time at the ear. Uses the longer of two reported latencies: a word must not light before it is heard. */
  contextTime() {
    const { context } = this;
    if (context.state !== "running") return this.heardS;
    let time = context.currentTime - (context.outputLatency || context.baseLatency || 0);
    const stamp = context.getOutputTimestamp?.();
    if (stamp?.performanceTime > 0) {
      time = Math.min(time, stamp.contextTime + (performance.now() - stamp.performanceTime) / 1000);
    }
    this.heardS = Math.max(this.heardS, time);
    return this.heardS;
  }

  /** Delay from the player to the ear. */
  get latencyMs() {
    return Math.max(0, (this.context.currentTime - this.contextTime()) * 1000);
  }

  /** {play, sample, playing, over} at the ear now; null before the first play. */
  position() {
    const frame = this.contextTime() * this.context.sampleRate;
    let k = this.turns.length - 1;
    while (k > 0 && this.turns[k].frame > frame) k--;
    const turn = this.turns[k];
    if (!turn) return null;
    const since = Math.max(0, frame - turn.frame);
    let sample = turn.sample + (turn.playing ? since * (turn.rate ?? 1) : 0);
    const next = this.turns[k + 1];
    // Never ahead of the player: it may have paused and its message not have arrived.
    if (next && next.play === turn.play) sample = Math.min(sample, next.sample);
    if (this.confirmed.play === turn.play) sample = Math.min(sample, this.confirmed.sample);
    return {
      play: turn.play,
      sample: turn.frame > frame ? 0 : sample,
      playing: turn.playing && turn.frame <= frame,
      over: turn.over,
    };
  }
}
