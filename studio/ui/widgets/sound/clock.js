// Which voice sample is being heard, by the player's turns and by what the audio device says of its delay.

const KEPT_TURNS = 512;

export class HearingClock {
  constructor(context) {
    this.context = context;
    this.turns = [];
    this.heardS = 0;
    this.confirmed = { play: 0, sample: 0 }; // the last sample that has surely left the player
  }

  /** The player says that from context frame `frame` on the voice moves from `sample`, or rests there. */
  turn(turn) {
    this.turns.push(turn);
    this.confirmed = turn;
    if (this.turns.length > KEPT_TURNS) this.turns.shift();
  }

  /** Context time now at the ear. The later of two reports is believed: a word must not light before it is heard. */
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

  /** How far the ear is behind the player. */
  get latencyMs() {
    return Math.max(0, (this.context.currentTime - this.contextTime()) * 1000);
  }

  /** {play, sample, playing} at the ear now, or null before anything was begun. */
  heard() {
    const frame = this.contextTime() * this.context.sampleRate;
    let k = this.turns.length - 1;
    while (k > 0 && this.turns[k].frame > frame) k--;
    const turn = this.turns[k];
    if (!turn) return null;
    const since = Math.max(0, frame - turn.frame);
    let sample = turn.sample + (turn.playing ? since * (turn.rate ?? 1) : 0);
    const next = this.turns[k + 1];
    // Never ahead of the player: it may have come to rest, and the news of it be on its way.
    if (next && next.play === turn.play) sample = Math.min(sample, next.sample);
    if (this.confirmed.play === turn.play) sample = Math.min(sample, this.confirmed.sample);
    return { play: turn.play, sample: turn.frame > frame ? 0 : sample, playing: turn.playing && turn.frame <= frame, over: turn.over };
  }
}
