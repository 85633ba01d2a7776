// Viewer of one utterance: canvas, player, pointer and keyboard input, tables.

import { save } from "../sound/recording.js";
import { clock } from "../timeline/axis.js";
import { CAPTION_TYPES, captionsOf } from "../timeline/bundle.js";
import { pointed } from "../timeline/pointer.js";
import { TimelineViewer } from "../timeline/viewer.js";
import { PAUSES } from "./lanes.js";
import { Player } from "./player.js";
import { Scene } from "./scene.js";
import { about, fillLags, fillLegend, fillSeams, fillWords } from "./tables.js";

const AROUND_MS = 100; // played on each side of a seam

export class Viewer extends TimelineViewer {
  constructor(page, parts, name) {
    super(page);
    this.view = parts.view;
    this.name = name;
    this.annotator = null;
    this.annotationInput = null; // input handler of annotation lanes
    this.scene = new Scene(this.find(".scene"), parts);
    this.find(".looked").textContent = "";
    this.find('[data-do="attention"]').disabled = false;
    this.player = new Player(
      parts.pcm,
      this.scene.line.runs,
      this.scene.rateHz,
      (ms) => this.moved(ms),
      () => this.changed(),
    );
    this.scene.onDrawn = () => this.placed();
    this.fill();
    this.listen();
    this.scene.resize();
    this.player.place(this.player.firstMs);
    page.viewer = this; // for tests
  }

  fill() {
    const { view, page } = this;
    this.find(".view h1").textContent = view.timeline.text.trim() || this.name;
    this.find(".about").textContent = about(view);
    fillLags(this.find(".lags"), view);
    fillLegend(this.find(".legend"), view, this.scene.colours);
    fillSeams(page.querySelector("details.seams"), view, (seam) => this.toSeam(seam.sample));
    fillWords(page.querySelector("details.words"), view, (word) => this.choose(word.i, true));
    this.find('[data-do="picture"]').hidden = !this.scene.pictures.frames;
    for (const name of Object.keys(CAPTION_TYPES)) this.find(`[data-do="${name}"]`).hidden = !view.captions;
    const { seams, forced } = view.facts;
    const has = {
      words: view.timeline.words.some(({ start }) => start !== null),
      seams: seams.length,
      forced: forced.length,
    };
    for (const [name, some] of Object.entries(has)) this.find(`[data-keys="${name}"]`).hidden = !some;
    this.changed();
  }

  listen() {
    const signal = { signal: this.closing.signal };
    pointed(this, signal);
    this.scene.canvas.addEventListener("keydown", (e) => this.pressed(e), signal);
    this.watch(
      () => this.scene.resize(),
      () => {
        this.scene.recolour();
        fillLegend(this.find(".legend"), this.view, this.scene.colours);
      },
    );
  }

  /** Add level and pitch, which are loaded later; `lacks` names what pitch needs. */
  take(parts) {
    if (this.closing.signal.aborted) return;
    this.scene.take(parts);
    this.find(".lacks").textContent = parts.view.lacks;
  }

  /**
   * Offer attention. `request()` fetches it (teacher forcing over the trace's frames); it is fetched at once where the
   * trace stores it. `lacks` says why it is unavailable.
   */
  offerAttention(request, lacks = "") {
    this.fetchAttention = request;
    const { frames } = this.scene.pictures;
    this.find('[data-do="attention"]').hidden = !frames || this.view.has_attention || Boolean(lacks);
    if (this.view.has_attention) this.attend();
    else if (frames) this.find(".looked").textContent = lacks;
  }

  async attend() {
    const [button, status] = [this.find('[data-do="attention"]'), this.find(".looked")];
    button.disabled = true;
    status.textContent = "Computing attention …";
    try {
      const parts = await this.fetchAttention();
      if (!this.closing.signal.aborted) this.takeAttention(parts);
    } catch (error) {
      if (this.closing.signal.aborted) return;
      button.disabled = false;
      status.textContent = error instanceof TypeError ? "The server cannot be reached." : error.message;
    }
  }

  /** Show attention and log-likelihood of each frame. */
  takeAttention(parts) {
    this.scene.takeAttention(parts);
    this.find('[data-do="attention"]').hidden = true;
    const { what, difference } = parts.view;
    const isSame = difference === null || difference < 1e-3;
    this.find(".looked").textContent =
      `Attention: ${what}.${isSame ? "" : ` The exact model input is unknown: ${this.scene.pName} differs from the trace by up to ${difference.toFixed(3)}.`}`;
  }

  // ------------------------------------------------------------ commands

  act(name) {
    const { scene, player } = this;
    if (name === "half") player.speed = player.speed === 1 ? 0.5 : 1;
    else if (name === "picture") scene.pictureName = scene.pictureName === "frames" ? "heard" : "frames";
    else if (name === "png") this.savePng();
    else if (name in CAPTION_TYPES) save(captionsOf(this.view, name), `captions.${name}`);
    else if (name === "attention") this.attend();
    super.act(name);
  }

  pressed(e) {
    if (this.annotationInput?.onKey(e)) return this.scene.ask();
    if (e.ctrlKey || e.metaKey || e.altKey) return undefined;
    const keys = {
      ...this.keys,
      ...this.moves(this.player.firstMs, this.player.lastMs),
      h: () => this.act("half"),
      n: () => this.next((_, k) => k > 0, true),
      f: () => this.next((_, k, all) => all[k - 1]?.forced, false),
    };
    const act = keys[e.key.length === 1 ? e.key.toLowerCase() : e.key];
    if (!act) return undefined;
    e.preventDefault();
    act();
    this.scene.ask();
    return undefined;
  }

  loop(isOn) {
    this.player.loop = isOn ? (this.scene.selection ?? [this.player.firstMs, this.player.lastMs]) : null;
  }

  choose(i, plays = false) {
    const word = this.scene.word(i);
    this.scene.chosen = i;
    if (!word || word.heard_ms === null) return this.scene.ask();
    this.scene.selection = [word.heard_ms, word.heard_whole_ms];
    if (this.player.loop) this.player.loop = this.scene.selection;
    this.jump(word.heard_ms);
    this.showWord(word);
    if (plays) this.player.play(word.heard_ms, this.player.loop ? Infinity : word.heard_whole_ms);
    return undefined;
  }

  step(by) {
    const { words } = this.scene.line;
    const at = words.findIndex((word) => word.i === this.scene.chosen);
    const next = words[at < 0 ? 0 : Math.min(words.length - 1, Math.max(0, at + by))];
    if (next) this.choose(next.i);
  }

  /** Go to the next segment after the playhead that `fits`; wraps around. */
  next(fits, plays) {
    const candidates = this.scene.line.segments.filter((one, k, all) => one.heard_ms !== null && fits(one, k, all));
    const one =
      candidates.find((each) => each.heard_ms - (plays ? AROUND_MS : 0) > this.player.atMs + AROUND_MS + 1) ??
      candidates[0];
    if (!one) return;
    if (plays) this.toSeam(one.start);
    else this.jump(one.heard_ms);
  }

  /** Play 200 ms around a seam. */
  toSeam(sample) {
    const segment = this.scene.line.segments.find((one) => one.start === sample);
    if (!segment || segment.heard_ms === null) return;
    const span = [segment.heard_ms - AROUND_MS, segment.heard_ms + AROUND_MS];
    this.select(span);
    this.scene.axis.show(segment.heard_ms - 600, segment.heard_ms + 600);
    this.player.play(...span);
  }

  savePng() {
    this.scene.draw();
    this.scene.canvas.toBlob((blob) => save(blob, "timeline.png"));
  }

  // ------------------------------------------------------------ display

  changed() {
    const { player, scene } = this;
    if (!player) return;
    this.find('[data-do="play"]').textContent = player.isPlaying ? "Pause" : "Play";
    this.find('[data-do="loop"]').setAttribute("aria-pressed", Boolean(player.loop));
    this.find('[data-do="half"]').setAttribute("aria-pressed", player.speed !== 1);
    this.find('[data-do="picture"]').textContent = scene.pictureName === "frames" ? "Spectrogram" : "Acoustic frames";
  }

  moved(ms) {
    const { scene } = this;
    const before = scene.wordAt(scene.atMs, Infinity);
    scene.atMs = ms;
    if (scene.wordAt(ms, Infinity) !== before) scene.ask();
    this.follow(ms);
  }

  /** Show details of a point on the canvas. */
  hover(ms, y) {
    const { scene } = this;
    const sample = scene.sampleAt(ms);
    const pause = scene.line.pauses.find((one) => one.start_ms <= ms && ms < one.end_ms);
    const word = scene.wordAt(ms, y);
    const parts = [`${clock(ms)} s`];
    if (sample !== null) {
      parts.push(`sample ${sample.toLocaleString("en")}`);
      if (scene.frameSamples) {
        const frame = Math.floor(sample / scene.frameSamples);
        const p = scene.pEos[frame];
        parts.push(`frame ${frame}${p > 0 || p === 0 ? `, ${scene.pName} ${p.toFixed(3)}` : ""}`);
        if (scene.attention) parts.push(...scene.attention.describe(frame, (i) => scene.word(i)?.text));
      }
      const hz = scene.prosody?.hz(sample);
      if (hz) parts.push(`${Math.round(hz)} Hz`);
    }
    if (pause) parts.push(`${PAUSES[pause.reason]}, ${Math.round(pause.end_ms - pause.start_ms)} ms`);
    const marked = this.annotationInput?.describe(scene.axis.x(ms), y);
    if (marked) parts.push(marked);
    this.find(".readout").textContent = parts.join(" · ") + (word && !marked ? ` · ${this.describe(word)}` : "");
  }

  showWord(word) {
    this.find(".readout").textContent = this.describe(word);
  }

  describe(word) {
    const segment = this.scene.line.segments.find((one) => one.index === word.segment);
    const saw = (segment?.seen ?? []).filter((i) => i !== word.i).map((i) => this.scene.word(i)?.text);
    const parts = [`“${word.text}”`];
    if (word.known_ms !== null && word.heard_ms !== null)
      parts.push(
        `known ${clock(word.known_ms)}, heard ${clock(word.heard_ms)}: ${Math.round(word.heard_ms - word.known_ms)} ms`,
      );
    if (saw.length) parts.push(`with ${saw.join(" ")}`);
    if (segment?.forced) parts.push("forced to end");
    return parts.join(", ");
  }
}
