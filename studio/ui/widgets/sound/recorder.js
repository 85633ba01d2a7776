// Records the microphone as it is: without the browser's noise suppression, echo cancellation and automatic gain.

import { silentWav } from "./recording.js";

const AS_IT_IS = { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: false };
const FAILURES = {
  NotAllowedError: "The browser does not let this page use the microphone. Allow it, or choose a file.",
  NotFoundError: "There is no microphone. Choose a file.",
  NotReadableError: "Another program uses the microphone. Close it, or choose a file.",
};

export class Recorder {
  /** `heard(block, seconds)` is called with each block of samples and the length so far; `base`: of the scripts. */
  constructor(base, heard) {
    this.base = base;
    this.heard = heard;
  }

  /** Begin; rejects with a message for people. */
  async start() {
    if (!navigator.mediaDevices)
      throw new Error("Browsers allow recording only over HTTPS or on localhost. Choose a file instead.");
    try {
      this.stream = await navigator.mediaDevices.getUserMedia({ audio: AS_IT_IS });
      this.context = new AudioContext();
      await this.context.audioWorklet.addModule(`${this.base}/sound/recorder.worklet.js`);
    } catch (error) {
      await this.close();
      throw new Error(FAILURES[error.name] ?? `The microphone cannot be used: ${error.message}`);
    }
    this.blocks = [];
    this.samples = 0;
    this.node = new AudioWorkletNode(this.context, "recorder", { numberOfOutputs: 0 });
    this.node.port.onmessage = ({ data }) => {
      this.blocks.push(data);
      this.samples += data.length;
      this.heard(data, this.samples / this.context.sampleRate);
    };
    this.context.createMediaStreamSource(this.stream).connect(this.node);
  }

  /** End; resolves to the recording as a WAV file. */
  async stop() {
    this.node.port.onmessage = null;
    const { bytes, pcm } = silentWav(this.samples, this.context.sampleRate);
    let at = 0;
    for (const block of this.blocks)
      for (const value of block) pcm[at++] = Math.max(-32768, Math.min(32767, Math.round(value * 32768)));
    await this.close();
    return new File([bytes], "recording.wav", { type: "audio/wav" });
  }

  async close() {
    for (const track of this.stream?.getTracks() ?? []) track.stop();
    await this.context?.close();
    this.stream = this.context = null;
  }
}

/** The largest magnitude of each of `count` equal parts of samples. */
export function peaksOf(samples, count) {
  const step = samples.length / count;
  return Array.from({ length: count }, (_, k) => {
    let peak = 0;
    for (let at = Math.floor(k * step); at < Math.floor((k + 1) * step); at++)
      peak = Math.max(peak, Math.abs(samples[at]));
    return peak;
  });
}
