// Saves a finished race as a picture or as a clip with sound.

import { copyAsHeard, lengthAsHeard, save } from "../../sound/recording.js";
import { drawRace, outcome, write } from "./paint.js";

const PICTURE = { width: 1200, height: 630 };
const CLIP = { width: 1280, height: 720 };
const FRAME_MS = 33;
const TAIL_MS = 1200; // to read the outcome
const MIMES = [
  "video/mp4;codecs=avc1.42E01F,mp4a.40.2",
  "video/webm;codecs=vp9,opus",
  "video/webm;codecs=vp8,opus",
  "video/webm",
];
const CLAIM = "Speech that starts before the typing ends";

export class Sharing {
  constructor(box, player, style) {
    this.player = player;
    this.style = style;
    this.race = null;
    this.isRendering = false;
    this.part = box.querySelector(".share");
    this.clip = this.part.querySelector('[data-share="clip"]');
    this.picture = this.part.querySelector('[data-share="picture"]');
    this.output = this.part.querySelector("output");
    this.clip.addEventListener("click", () => this.saveClip());
    this.picture.addEventListener("click", () => this.savePicture());
    this.mime = globalThis.MediaRecorder && MIMES.find((mime) => MediaRecorder.isTypeSupported(mime));
  }

  /** Offer a finished race, {record, sounds}; null hides the buttons. */
  offer(race) {
    this.race = race;
    this.part.hidden = !race;
    this.clip.hidden = !this.mime;
    this.output.textContent = "";
  }

  /** Draw a whole picture at `tMs` of the race. */
  draw(canvas, tMs) {
    const paint = canvas.getContext("2d", { alpha: false });
    const { width, height } = canvas;
    const colours = this.style();
    const [side, em] = [width * 0.05, height * 0.042];
    paint.fillStyle = colours.panel;
    paint.fillRect(0, 0, width, height);
    paint.textAlign = "left";
    write(paint, CLAIM, side, height * 0.1, 700, em * 1.6, colours.ink);
    const box = { x: side, y: height * 0.19, width: width - 2 * side, height: height * 0.68 };
    drawRace(paint, this.race.record, tMs, box, colours, em);
    write(paint, "Streaming-TTS Studio", side, height * 0.945, 600, em * 0.85, colours.muted);
  }

  savePicture() {
    const canvas = Object.assign(document.createElement("canvas"), PICTURE);
    this.draw(canvas, this.race.record.endMs);
    canvas.toBlob((blob) => save(blob, "race.png"), "image/png");
  }

  async saveClip() {
    if (this.isRendering) return;
    this.isRendering = this.clip.disabled = true;
    const { record, sounds } = this.race;
    const lastMs = record.endMs + TAIL_MS;
    const canvas = Object.assign(document.createElement("canvas"), CLIP);
    const { context } = this.player;
    await context.resume();
    const into = context.createMediaStreamDestination();
    const stream = new MediaStream([...canvas.captureStream(30).getVideoTracks(), ...into.stream.getAudioTracks()]);
    const recorder = new MediaRecorder(stream, { mimeType: this.mime, videoBitsPerSecond: 2_500_000 });
    const parts = [];
    recorder.ondataavailable = ({ data }) => parts.push(data);
    this.draw(canvas, 0);
    recorder.start();
    const beganS = context.currentTime + 0.1;
    const sources = sounds.map((sound, k) => play(context, into, sound, beganS + startMs(record, k) / 1000));
    /** @type {Promise<void>} */
    const played = new Promise((resolve) => {
      const timer = setInterval(() => {
        const tMs = (context.currentTime - beganS) * 1000;
        this.draw(canvas, Math.min(tMs, record.endMs));
        this.output.textContent = `Rendering the clip: ${Math.max(0, Math.ceil((lastMs - tMs) / 1000))} s left`;
        if (tMs < lastMs) return;
        clearInterval(timer);
        resolve();
      }, FRAME_MS);
    });
    await played;
    for (const source of sources) source.disconnect();
    await new Promise((resolve) => {
      recorder.onstop = resolve;
      recorder.stop();
    });
    const blob = new Blob(parts, { type: this.mime });
    save(blob, `race.${this.mime.includes("mp4") ? "mp4" : "webm"}`);
    this.output.textContent = `Clip saved: ${Math.round(lastMs / 1000)} s, ${outcome(record)}.`;
    this.isRendering = this.clip.disabled = false;
  }
}

/** Playback time of a lane's first sample; the second lane plays after the first. */
function startMs(record, k) {
  const lane = record.lanes[k];
  return k === 0 ? lane.firstMs - (1000 * lane.audible) / record.rateHz : record.secondMs;
}

/** Play a lane's samples at a context time, with its recorded gaps. */
function play(context, into, { chunks, gaps, samples, rateHz }, atS) {
  const pcm = new Float32Array(lengthAsHeard(samples, gaps));
  copyAsHeard(chunks, gaps, pcm, 1 / 32768);
  const buffer = context.createBuffer(1, Math.max(1, pcm.length), rateHz);
  buffer.copyToChannel(pcm, 0);
  const source = new AudioBufferSourceNode(context, { buffer });
  source.connect(into);
  source.start(Math.max(context.currentTime, atS));
  return source;
}
