// Viewer of a comparison: canvas, playback, pointer and keyboard input, compared pair.

import { clock } from "../timeline/axis.js";
import { pointed } from "../timeline/pointer.js";
import { TimelineViewer } from "../timeline/viewer.js";
import { common, fillPair, fillUtterances, fillWords } from "./figures.js";
import { Mixer } from "./mixer.js";
import { Scatter } from "./scatter.js";
import { Scene } from "./scene.js";

export class Viewer extends TimelineViewer {
  /** `difference(one, other, stretch)` fetches the spectral difference of a pair. */
  constructor(page, parts, difference) {
    super(page);
    this.view = parts.view;
    this.difference = difference;
    this.measured = null; // pitch and level of words, loaded later
    this.scene = new Scene(this.find(".scene"), parts);
    this.player = new Mixer(
      this.scene.takes,
      () => this.scene.maps,
      (ms) => this.moved(ms),
      () => this.changed(),
    );
    this.scene.onDrawn = () => this.placed();
    this.scatter = new Scatter(
      this.find(".scatter canvas"),
      (i) => this.choose(i, true),
      (row) => this.hoverRow(row),
    );
    this.find(".head").style.maskImage = this.scene.maskOfNames;
    this.fill();
    this.listen();
    this.scene.resize();
    this.pair(0, Math.min(1, this.scene.takes.length - 1));
    this.player.place(0);
    page.viewer = this; // for tests
  }

  get isPair() {
    return this.scene.takes.length > 1;
  }

  get canStretch() {
    return this.isPair && this.view.can_stretch;
  }

  fill() {
    const { view } = this;
    const names = view.takes.map(({ name }, k) => `${k + 1} ${name}`);
    const others = view.takes.filter((_, k) => view.strangers.includes(k));
    const untimed = view.takes.filter(({ timed }) => !timed);
    this.find(".view h1").textContent = view.takes[view.reference].text || view.takes[0].name;
    this.find(".about").textContent = common(view.takes);
    const notes = [
      ...others.map(
        ({ name, share }) => `“${name}” says another text: ${Math.round(100 * share)}% of its words are the same.`,
      ),
      ...untimed.map(({ name }) => `The word times of “${name}” are unknown.`),
    ];
    if (notes.length) notes.push("The utterances are shown in their own time and cannot be stretched to align words.");
    const estimated = view.takes.filter((take) => take.said.some(([, , , isEstimate]) => isEstimate));
    if (estimated.length) notes.push("Word times drawn with dashes are estimates.");
    this.find(".notes").textContent = notes.join(" ");
    this.find('[data-do="stretch"]').disabled = !this.canStretch;
    this.find('[data-do="stretch"]').title = this.canStretch ? "" : "No two utterances have words that can be aligned.";
    this.find(".takes").replaceChildren(...names.map((name, k) => this.takeButton(name, k)));
    for (const part of this.page.querySelectorAll(".of-pairs")) part.hidden = !this.isPair;
    for (const which of ["one", "other"]) {
      this.find(`[data-pair="${which}"]`).replaceChildren(...names.map((name, k) => new Option(name, k)));
    }
    fillUtterances(this.find("details.utterances"), view);
    fillWords(this.find("details.words"), view, null, (i) => this.choose(i, true));
    this.changed();
  }

  takeButton(name, k) {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: name });
    button.dataset.take = k;
    button.addEventListener("click", () => this.hear(k));
    return button;
  }

  listen() {
    const signal = { signal: this.closing.signal };
    for (const which of ["one", "other"]) {
      this.find(`[data-pair="${which}"]`).addEventListener(
        "change",
        () => {
          const [one, other] = ["one", "other"].map((name) => Number(this.find(`[data-pair="${name}"]`).value));
          this.pair(one, other);
        },
        signal,
      );
    }
    pointed(this, signal);
    const { canvas } = this.scene;
    canvas.addEventListener(
      "click",
      (e) => {
        const take = this.scene.takeAt(e.clientY - canvas.getBoundingClientRect().top);
        if (take !== null && !this.scene.selection) this.hear(take);
      },
      signal,
    );
    this.find(".view").addEventListener("keydown", (e) => this.pressed(e), signal);
    this.watch(
      () => {
        this.scene.resize();
        this.scatter.resize();
      },
      () => {
        this.scene.recolour();
        this.scatter.resize();
      },
    );
  }

  close() {
    this.scatter.close();
    super.close();
  }

  /** Add pitch and level of words, which are loaded later; `lacks` names what pitch needs. */
  take({ view }) {
    if (this.closing.signal.aborted) return;
    this.measured = view;
    this.find(".lacks").textContent = view.lacks;
    fillWords(this.find("details.words"), this.view, view.rows, (i) => this.choose(i, true));
    this.showPair();
  }

  // ------------------------------------------------------------ commands

  act(name) {
    const { scene } = this;
    if (name === "stretch") this.stretch(!scene.isStretched);
    else if (name === "picture") scene.isSpectral = !scene.isSpectral;
    super.act(name);
  }

  pressed(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, select, textarea")) return;
    if (e.target.closest("button, summary") && [" ", "Enter"].includes(e.key)) return;
    const { scene } = this;
    const keys = {
      ...this.keys,
      s: () => this.canStretch && this.act("stretch"),
      v: () => this.act("picture"),
      ...(e.target === scene.canvas ? this.moves(0, scene.endMs) : {}),
    };
    const isNumber = /^[1-9]$/.test(e.key);
    const act = isNumber ? () => this.hear(Number(e.key) - 1) : keys[e.key.length === 1 ? e.key.toLowerCase() : e.key];
    if (!act) return;
    e.preventDefault();
    act();
    scene.ask();
  }

  /** Switch playback to another utterance, at the same word if stretched, else at the same time. */
  hear(number) {
    if (!this.scene.takes[number]) return;
    this.player.hear(number);
    this.scene.heard = this.player.heard;
    this.scene.ask();
  }

  stretch(isOn) {
    const { scene, player } = this;
    const before = scene.maps;
    scene.stretch(isOn);
    player.remap(before);
    if (player.loop) player.loop = scene.selection ?? [0, scene.endMs];
    this.fetchDifference();
  }

  /** Compare two utterances. */
  pair(one, other) {
    this.scene.pair = [one, other];
    this.find('[data-pair="one"]').value = one;
    this.find('[data-pair="other"]').value = other;
    this.showPair();
    this.fetchDifference();
  }

  async fetchDifference() {
    const { scene } = this;
    scene.difference = null;
    scene.ask();
    if (!this.isPair) return;
    const request = JSON.stringify([scene.pair, scene.isStretched]);
    this.request = request;
    const [one, other] = scene.pair;
    const difference = await this.difference(other, one, scene.isStretched);
    if (difference && request === this.request && !this.closing.signal.aborted) {
      scene.take(difference);
      this.meanDb = difference.view.mean_db;
      this.showPair();
    }
  }

  showPair() {
    const [one, other] = this.scene.pair;
    this.scatter.show(this.view, one, other);
    const pairs = (this.measured ?? this.view).pairs;
    fillPair(this.find(".pair-figures"), pairs, this.scene.pair, this.scene.difference ? this.meanDb : null);
  }

  jump(ms) {
    this.scatter.choose(this.scene.chosen);
    super.jump(ms);
  }

  select(span) {
    super.select(span);
    this.scatter.choose(this.scene.chosen);
  }

  loop(isOn) {
    this.player.loop = isOn ? (this.scene.selection ?? [0, this.scene.endMs]) : null;
  }

  /** Select a word by its row: of the played utterance, else of the reference. */
  choose(i, plays = false) {
    const { scene, player } = this;
    if (i === null) return;
    const index = scene.rows[i][player.heard];
    const take = index === null ? scene.reference : player.heard;
    const word = scene.takes[take].words[scene.rows[i][take]];
    const span = [word.startMs, word.endMs].map((ms) => scene.maps[take].axis(ms));
    scene.chosen = i;
    scene.selection = span;
    if (player.loop) player.loop = span;
    this.jump(span[0]);
    this.find(".readout").textContent = this.story(i);
    if (plays) player.play(span[0], player.loop ? Infinity : span[1]);
  }

  step(by) {
    const { rows, chosen } = this.scene;
    if (rows.length) this.choose(chosen === null ? 0 : Math.min(rows.length - 1, Math.max(0, chosen + by)));
  }

  // ------------------------------------------------------------ display

  changed() {
    const { player, scene } = this;
    if (!player) return;
    scene.heard = player.heard;
    const pressed = (name, isOn) => this.find(`[data-do="${name}"]`).setAttribute("aria-pressed", Boolean(isOn));
    this.find('[data-do="play"]').textContent = player.isPlaying ? "Pause" : "Play";
    pressed("loop", player.loop);
    pressed("stretch", scene.isStretched && this.isPair);
    pressed("picture", scene.isSpectral);
    for (const button of this.page.querySelectorAll("[data-take]")) {
      button.setAttribute("aria-pressed", Number(button.dataset.take) === player.heard);
    }
  }

  moved(ms) {
    const { scene } = this;
    const before = this.nowAt;
    scene.atMs = ms;
    this.nowAt = scene.wordAt(ms, Infinity)?.word ?? null;
    if (this.nowAt !== before) scene.ask();
    this.follow(ms);
  }

  hover(ms, y) {
    const { scene } = this;
    const hit = scene.wordAt(ms, y);
    const take = scene.takeAt(y) ?? scene.heard;
    const own = scene.maps[take].own(ms);
    const at =
      own >= 0 && 1000 * scene.takes[take].pcm.length >= own * scene.takes[take].rateHz
        ? `${take + 1}: ${clock(own)} s`
        : `${clock(ms)} s`;
    const word = hit && (hit.i === null ? `“${hit.word.text}”, not in the reference` : this.story(hit.i));
    this.find(".readout").textContent = [at, word].filter(Boolean).join(" · ");
    this.scatter.choose(hit?.i ?? scene.chosen);
  }

  hoverRow(i) {
    this.find(".readout").textContent = i === null ? "" : this.story(i);
  }

  /** Duration of a word in each utterance. */
  story(i) {
    const { rows, takes, reference } = this.scene;
    const of = (k) => (rows[i][k] === null ? null : takes[k].words[rows[i][k]]);
    const lengths = takes.map((_, k) =>
      of(k) ? `${k + 1}: ${Math.round(of(k).endMs - of(k).startMs)} ms` : `${k + 1}: –`,
    );
    return `“${of(reference).text}” ${lengths.join(", ")}`;
  }
}
