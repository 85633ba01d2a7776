// Saves a finished race as a picture or as a clip with sound.

import { t } from "../../page/translate.js";
import { drawBrand, shownAddress } from "../../share/brand.js";
import { clipEnding, clipMime, recordClip } from "../../share/clip.js";
import { save } from "../../sound/recording.js";
import { drawRace, outcome, write } from "./paint.js";

const PICTURE = { width: 1200, height: 630 };
const CLIP = { width: 1280, height: 720 };
const TAIL_MS = 1200; // to read the outcome
const CLAIM = t("Speech that starts before the typing ends");

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
    this.mime = clipMime();
  }

  /** Offer a finished race, {record, sounds}; null hides the buttons. */
  offer(race) {
    this.race = race;
    this.part.hidden = !race;
    this.clip.hidden = !this.mime;
    this.output.textContent = "";
  }

  /** Draw a whole picture at `tMs` of the race, with the address of this page or another text in its place. */
  draw(canvas, tMs, address = shownAddress(location)) {
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
    drawBrand(paint, { x: side, right: width - side, y: height * 0.945, em }, colours, address);
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
    const clip = {
      size: CLIP,
      mime: this.mime,
      lastMs,
      draw: (canvas, tMs) => this.draw(canvas, Math.min(tMs, record.endMs)),
      sounds: sounds.map((sound, k) => ({ sound, startMs: startMs(record, k) })),
    };
    const blob = await recordClip(this.player.context, clip, (seconds) => {
      this.output.textContent = t("Rendering the clip: {seconds} s left", { seconds });
    });
    save(blob, `race.${clipEnding(this.mime)}`);
    this.output.textContent = t("Clip saved: {seconds} s, {outcome}.", {
      seconds: Math.round(lastMs / 1000),
      outcome: outcome(record),
    });
    this.isRendering = this.clip.disabled = false;
  }
}

/** Playback time of a lane's first sample; the second lane plays after the first. */
function startMs(record, k) {
  const lane = record.lanes[k];
  return k === 0 ? lane.firstMs - (1000 * lane.audible) / record.rateHz : record.secondMs;
}
