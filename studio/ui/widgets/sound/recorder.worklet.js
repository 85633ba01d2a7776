// The microphone's samples, block by block, on the audio thread.

class Recorder extends AudioWorkletProcessor {
  process([[channel]]) {
    if (channel) this.port.postMessage(channel.slice()); // the browser reuses the block
    return true;
  }
}

registerProcessor("recorder", Recorder);
