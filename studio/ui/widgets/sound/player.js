// The audio context, made at the first gesture, and the page's view of the players inside it.

import { HearingClock } from "./clock.js";

const RING_S = 6; // more than the longest credit (live/worker/pacing.js)

/** One player inside the context: what the Worker feeds through `port`, heard through `volume`. */
export class Channel {
  /** `on` gets each message of the player's. */
  constructor(context, { rateHz, tap = false, volume = 1, into = context.destination }, on) {
    this.clock = new HearingClock(context);
    const ringSamples = 2 ** Math.ceil(Math.log2(RING_S * rateHz));
    this.node = new AudioWorkletNode(context, "studio-player", {
      numberOfInputs: 0,
      outputChannelCount: [1],
      processorOptions: { ringSamples, tap },
    });
    const channel = new MessageChannel();
    this.node.port.onmessage = ({ data }) => {
      if (data.type === "turn") this.clock.turn(data);
      if (data.type === "confirm") this.clock.confirmed = data;
      on(data);
    };
    this.node.port.postMessage({ port: channel.port1 }, [channel.port1]);
    const gain = new GainNode(context, { gain: volume });
    this.node.connect(gain).connect(into);
    this.port = channel.port2;
  }

  close() {
    this.node.disconnect();
  }
}

export class Player {
  /** `on` has port(MessagePort, rateHz), message(m). */
  constructor(base, on, tap) {
    this.base = base;
    this.on = on;
    this.tap = tap;
    this.context = this.clock = this.ready = null;
    this.isPaused = false;
    this.volume = 1;
    fetch(`${base}/sound/player.worklet.js`); // in the cache before the first gesture asks for it
  }

  /** Before the first gesture: the context sleeps until then, but its player is loaded. */
  prepare(rateHz) {
    if (!this.context) this.make(rateHz);
  }

  /** Called at every gesture: makes the context the first time, wakes it when the browser had put it to sleep. */
  wake(rateHz, mayChange) {
    if (this.context && this.context.sampleRate !== rateHz && mayChange) this.close();
    if (!this.context) this.make(rateHz);
    if (this.context.state === "suspended" && !this.isPaused) this.context.resume();
  }

  make(rateHz) {
    const context = (this.context = new AudioContext({ latencyHint: "interactive", sampleRate: rateHz }));
    this.out = new GainNode(context, { gain: this.volume });
    this.out.connect(context.destination);
    context.onstatechange = () => this.on.message({ type: "context", state: context.state });
    this.ready = context.audioWorklet.addModule(`${this.base}/sound/player.worklet.js`).then(() => {
      if (context !== this.context) return;
      const channel = this.channel({ tap: this.tap }, (m) => this.on.message(m));
      this.clock = channel.clock;
      this.on.port(channel.port, rateHz);
    });
    this.ready.catch((error) => context === this.context && this.on.message({ type: "fault", message: `The player could not be loaded: ${error.message}` }));
  }

  /** Another player beside the first one; the context must be ready. */
  channel(options, on) {
    return new Channel(this.context, { rateHz: this.context.sampleRate, into: this.out, ...options }, on);
  }

  setVolume(volume) {
    this.volume = volume;
    if (this.context) this.out.gain.setTargetAtTime(volume, this.context.currentTime, 0.01);
  }

  get isAwake() {
    return this.context?.state === "running";
  }

  pause() {
    this.isPaused = true;
    return this.context?.suspend();
  }

  resume() {
    this.isPaused = false;
    return this.context?.resume();
  }

  close() {
    this.context?.close();
    this.context = this.clock = null;
  }
}
