// The audio context, made at the first gesture, and the page's view of the player inside it.

import { HearingClock } from "./clock.js";

const RING_S = 4; // twice the credit

export class Player {
  /** `on` has port(MessagePort, rateHz), message(m). */
  constructor(base, on, tap) {
    this.base = base;
    this.on = on;
    this.tap = tap;
    this.context = this.clock = this.ready = null;
    this.isPaused = false;
    fetch(`${base}/sound/player.worklet.js`); // in the cache before the first gesture asks for it
  }

  /** Called at every gesture: makes the context the first time, wakes it when the browser had put it to sleep. */
  wake(rateHz, mayChange) {
    if (this.context && this.context.sampleRate !== rateHz && mayChange) this.close();
    if (!this.context) this.make(rateHz);
    if (this.context.state === "suspended" && !this.isPaused) this.context.resume();
  }

  make(rateHz) {
    const context = (this.context = new AudioContext({ latencyHint: "interactive", sampleRate: rateHz }));
    this.clock = new HearingClock(context);
    context.onstatechange = () => this.on.message({ type: "context", state: context.state });
    this.ready = context.audioWorklet.addModule(`${this.base}/sound/player.worklet.js`).then(() => this.connect(context, rateHz));
    this.ready.catch((error) => this.on.message({ type: "fault", message: `The player could not be loaded: ${error.message}` }));
  }

  connect(context, rateHz) {
    const ringSamples = 2 ** Math.ceil(Math.log2(RING_S * rateHz));
    const node = new AudioWorkletNode(context, "studio-player", {
      numberOfInputs: 0,
      outputChannelCount: [1],
      processorOptions: { ringSamples, tap: this.tap },
    });
    const channel = new MessageChannel();
    node.port.onmessage = ({ data }) => {
      if (data.type === "turn") this.clock.turn(data);
      if (data.type === "confirm") this.clock.confirmed = data;
      this.on.message(data);
    };
    node.port.postMessage({ port: channel.port1 }, [channel.port1]);
    node.connect(context.destination);
    this.node = node;
    this.on.port(channel.port2, rateHz);
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
    this.context = null;
  }
}
