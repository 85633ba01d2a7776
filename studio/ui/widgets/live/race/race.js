// The race on the page: two players on one clock, drawn as they are heard, and its outcome.

import { after, drawRace, heightFor, outcome } from "./paint.js";
import { Record } from "./record.js";
import { Second } from "./second.js";
import { Sharing } from "./share.js";
import { PEAK_SAMPLES } from "../worker/lane.js";

export const RACE_WPM = 150;
const MOST_WORDS = 40;
const COLOURS = ["ink", "muted", "line", "faint", "accent", "accent-soft", "accent-ink", "panel", "paper"];
const HINT = "The same keys go to both at the same moments. You hear the first, then the second.";
const BUSY = "All places are taken: the race begins when there are two.";

/** The sentences at the beginning of a text that make a short race. */
export function raceText(text) {
  const words = text.trim().split(/\s+/);
  if (words.length <= MOST_WORDS) return words.join(" ");
  const cut = words.slice(0, MOST_WORDS).findLastIndex((word) => /[.!?]["'”’)]*$/.test(word));
  return words.slice(0, cut < 0 ? MOST_WORDS : cut + 1).join(" ");
}

export class Race {
  /** `on` has tell(message, transfer), set(): somebody chose whom to race against; changed(); `wanted` is of the address. */
  constructor(root, player, url, sample, wanted, on) {
    Object.assign(this, { player, url, on, sample });
    this.box = root.querySelector(".race");
    this.canvas = this.box.querySelector("canvas");
    this.paint = this.canvas.getContext("2d");
    this.button = this.box.querySelector('[data-do="race"]');
    this.said = this.box.querySelector(".race-said");
    this.state = "idle"; // idle | waiting | running | over
    this.channels = [];
    this.sharing = new Sharing(this.box, player, () => this.style());
    this.size = new ResizeObserver(() => this.draw());
    this.size.observe(this.canvas);
    this.theme = new MutationObserver(() => this.draw());
    this.theme.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    this.second = new Second(this.box, wanted, () => {
      this.renew();
      this.on.set();
    });
    this.text = sample;
    this.renew();
  }

  /** Nothing of it yet: the text, and who would speak it. */
  renew() {
    if (this.isRunning) return;
    this.sharing.offer(null);
    this.turn("idle");
    this.show(new Record(this.text, RACE_WPM, this.second.names));
    this.canvas.setAttribute("aria-label", `Two lanes on one clock: the words as they are heard, and the sound. Above: ${this.second.names[0]}. Below: ${this.second.names[1]}.`);
  }

  get isRunning() {
    return this.state === "waiting" || this.state === "running";
  }

  /** Another text to race with, shown before it begins. */
  show(record) {
    this.record = record;
    this.draw();
  }

  async start(text, rateHz) {
    this.stop();
    this.turn("waiting");
    this.sharing.offer(null);
    this.text = raceText(text || this.sample);
    this.show(new Record(this.text, RACE_WPM, this.second.names));
    this.peaks = [[], []];
    this.beganMs = 0;
    this.say(HINT);
    await this.player.ready;
    if (this.state !== "waiting") return;
    // The second one is as real as the first, and silent: it tells when it would have been heard.
    this.channels = [1, 0].map((volume) => this.player.channel({ volume }, () => {}));
    const ports = this.channels.map((channel) => channel.port);
    this.on.tell({ type: "race", url: this.url, text: this.text, wpm: RACE_WPM, second: this.second.settings, ports, rateHz }, ports);
  }

  stop() {
    if (!this.isRunning) return;
    this.on.tell({ type: "unrace" });
    this.close();
    this.say("Stopped.");
    this.turn("idle");
    this.show(new Record(this.text, RACE_WPM, this.second.names));
  }

  close() {
    for (const channel of this.channels) channel.close();
    this.channels = [];
  }

  turn(state) {
    this.state = state;
    this.box.dataset.state = state;
    this.second.freeze(this.isRunning);
    this.button.lastElementChild.textContent = this.isRunning ? "Stop the race" : state === "over" ? "Race again" : "Start the race";
    this.on.changed();
  }

  say(text) {
    if (this.said.textContent !== text) this.said.textContent = text;
  }

  // --- what the Worker says ---------------------------------------------------------------------

  receive(m) {
    if (this.isRunning) RECEIVED[m.what](this, m);
  }

  /** The ear's place in each lane, and what it means. */
  tick() {
    if (this.state !== "running") return;
    const { record } = this;
    const tMs = this.nowMs();
    this.channels.forEach((channel, k) => {
      const heard = channel.clock.heard();
      if (!heard) return;
      const isSecond = heard.play > 1; // the first is the lane's own
      if (!isSecond) record.hear(k, heard.sample, tMs, (from, to) => this.peak(k, from, to));
      if (k === 0 && !isSecond) record.light(0, heard.sample, tMs);
      if (k === 0 && isSecond && heard.playing) record.second(tMs);
      if (k === 0 && isSecond) record.light(1, heard.sample, tMs);
    });
    this.draw();
  }

  nowMs() {
    return this.beganMs ? performance.timeOrigin + performance.now() - this.beganMs : 0;
  }

  peak(k, from, to) {
    const list = this.peaks[k].slice(Math.floor(from / PEAK_SAMPLES), Math.ceil(to / PEAK_SAMPLES));
    return list.reduce((most, one) => Math.max(most, one), 0);
  }

  // --- what is seen -----------------------------------------------------------------------------

  style() {
    const style = getComputedStyle(this.canvas);
    const colours = Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    return { ...colours, second: colours.muted, faintest: colours.muted };
  }

  draw() {
    const width = this.canvas.clientWidth;
    if (!width) return;
    const em = width < 520 ? 13.5 : 15;
    const least = heightFor(this.paint, this.record, width - 2, em) + 4;
    this.canvas.style.minBlockSize = `${least}px`;
    const height = this.canvas.clientHeight;
    const scale = devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * scale) || this.canvas.height !== Math.round(height * scale)) {
      this.canvas.width = Math.round(width * scale);
      this.canvas.height = Math.round(height * scale);
    }
    this.paint.setTransform(scale, 0, 0, scale, 0, 0);
    this.paint.clearRect(0, 0, width, height);
    const tMs = this.record.endMs ?? this.nowMs();
    const box = { x: 1, y: 2, width: width - 2, height: height - 4 };
    drawRace(this.paint, this.record, this.state === "idle" ? 0 : tMs, box, this.style(), em);
  }

  dispose() {
    this.size.disconnect();
    this.theme.disconnect();
  }
}

const RECEIVED = {
  queued: (race) => race.say(BUSY),
  begin(race, m) {
    race.beganMs = m.beganMs;
    race.record.begin(m.keys);
    race.say(HINT);
    race.turn("running");
  },
  event: (race, m) => race.record.event(m.lane, m.event),
  peaks: (race, m) => m.peaks.forEach((peak, k) => (race.peaks[m.lane][Math.round(m.first / PEAK_SAMPLES) + k] = peak)),
  heard(race, m) {
    const lane = race.record.lanes[m.lane];
    lane.firstMs = m.ms - race.beganMs;
    lane.audible = m.sample;
    if (m.lane === 0) race.box.dataset.heardAtMs = String(m.ms);
    if (outcome(race.record)) race.box.dataset.earlier = String(race.record.lanes[1].firstMs - race.record.lanes[0].firstMs);
  },
  over(race, m) {
    const { record } = race;
    record.end(race.nowMs());
    record.rateHz = m.sounds[0].rateHz;
    race.close();
    race.turn("over");
    race.say(`${record.names[0]} was ${outcome(record)}: ${after(record, 0)}, against ${after(record, 1).split(" after")[0]}. Measured in this run.`);
    race.sharing.offer({ record, sounds: m.sounds });
    race.draw();
  },
  failed(race, m) {
    race.stop();
    race.say(m.message);
  },
};
