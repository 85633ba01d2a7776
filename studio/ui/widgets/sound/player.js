// The audio context, started by the first gesture, and the page's end of its players.

import { t } from "../page/translate.js";
import { PlaybackClock } from "./clock.js";

const RING_S = 6; // more than the longest credit (live/worker/pacing.js)

/** One player in the context, fed by the Worker through `port`. */
export class Channel {
  /** `on(message)` receives the player's messages. */
  constructor(context, { rateHz, tap = false, volume = 1, into = context.destination }, on) {
    this.clock = new PlaybackClock(context);
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
  /** `on`: port(MessagePort, rateHz), message(m). */
  constructor(base, on, tap) {
    this.base = base;
    this.on = on;
    this.tap = tap;
    this.context = this.clock = this.ready = null;
    this.isPaused = false;
    this.volume = 1;
    fetch(`${base}/sound/player.worklet.js`); // into the cache before the first gesture
  }

  /** Create the suspended context and load its player before the first gesture. */
  prepare(rateHz) {
    if (!this.context) this.create(rateHz);
  }

  /** Called at every gesture: create the context, or resume one that the browser suspended. */
  wake(rateHz, mayChange) {
    if (this.context && this.context.sampleRate !== rateHz && mayChange) this.close();
    if (!this.context) this.create(rateHz);
    if (this.context.state === "suspended" && !this.isPaused) this.context.resume();
  }

  create(rateHz) {
    const context = new AudioContext({ latencyHint: "interactive", sampleRate: rateHz });
    this.context = context;
    this.out = new GainNode(context, { gain: this.volume });
    this.out.connect(context.destination);
    context.onstatechange = () => this.on.message({ type: "context", state: context.state });
    this.ready = context.audioWorklet.addModule(`${this.base}/sound/player.worklet.js`).then(() => {
      if (context !== this.context) return;
      const channel = this.channel({ tap: this.tap }, (m) => this.on.message(m));
      this.clock = channel.clock;
      this.on.port(channel.port, rateHz);
    });
    this.ready.catch((error) => {
      const message = t("The player could not be loaded: {error}", { error: error.message });
      if (context === this.context) this.on.message({ type: "fault", message });
    });
  }

  /** Add a player to the context, which must be ready. */
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
