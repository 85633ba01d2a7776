// Media keys of keyboards, headsets and lock screens: play, pause and stop.

import { silentWav } from "../sound/recording.js";

// Browsers give the keys to pages with a media element that plays more than 5 s; the speech comes from an audio worklet.
const SILENCE_S = 10;
const RATE_HZ = 8000;

export class MediaKeys {
  /** `on`: play(), pause(), stop(); `icon`: the address of a picture of 512 pixels. */
  constructor(icon, on) {
    this.session = navigator.mediaSession;
    this.icon = icon;
    this.state = "none";
    this.sound = null;
    for (const [action, run] of Object.entries(on)) this.session?.setActionHandler(/** @type {any} */ (action), run);
  }

  /** `state`: none, playing or paused; `voice`: its name. */
  update(state, voice) {
    if (!this.session || state === this.state) return;
    this.state = this.session.playbackState = state;
    if (state !== "playing") return void this.sound?.pause();
    const artwork = [{ src: this.icon, sizes: "512x512", type: "image/png" }];
    this.session.metadata = new MediaMetadata({ title: voice, artist: "Streaming-TTS Studio", artwork });
    this.sound ??= silence();
    this.sound.play().catch(() => {}); // before the first gesture: then the keys are not ours
  }

  dispose() {
    this.update("none", "");
    if (this.sound) URL.revokeObjectURL(this.sound.src);
  }
}

function silence() {
  const wav = new Blob([silentWav(SILENCE_S * RATE_HZ, RATE_HZ).bytes], { type: "audio/wav" });
  const sound = new Audio(URL.createObjectURL(wav));
  sound.loop = true;
  return sound;
}
