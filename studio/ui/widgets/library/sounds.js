// Plays and saves the sound of library entries, as it was heard.

import { wavAsHeard } from "../inspect/player.js";
import { captionsOf, parse } from "../timeline/bundle.js";

export class Sounds {
  /** `calls` is the client of the library's routes. */
  constructor(calls) {
    this.calls = calls;
    this.audio = new Audio();
    this.stop = () => {};
  }

  /** The sound of an entry as a WAV blob, with the waits of the trace as silence. */
  async wav({ name }) {
    const { view, pcm } = await this.view(name);
    return wavAsHeard(pcm, view.timeline.runs, view.timeline.rate_hz);
  }

  /** The captions of an entry as a blob, in the time of `wav`. */
  async captions({ name }, format) {
    const captions = captionsOf((await this.view(name)).view, format);
    if (!captions) throw new Error("No word of it has a time, so there are no captions.");
    return captions;
  }

  async view(name) {
    return parse(await (await this.calls.call("GET", `view/${name}`)).arrayBuffer());
  }

  /** Play an entry from its start, instead of another one; `show(isPlaying)` is called on start and stop. */
  async play(entry, show) {
    this.stop();
    let address = "";
    const stop = () => {
      if (this.stop !== stop) return;
      this.stop = () => {};
      this.audio.pause();
      URL.revokeObjectURL(address);
      show(false);
    };
    this.stop = stop;
    show(true);
    try {
      const wav = await this.wav(entry);
      if (this.stop !== stop) return;
      address = URL.createObjectURL(wav);
      this.audio.src = address;
      this.audio.onended = stop;
      await this.audio.play();
    } catch (error) {
      if (this.stop !== stop) return; // stopped while it was loading
      stop();
      throw error;
    }
  }
}
