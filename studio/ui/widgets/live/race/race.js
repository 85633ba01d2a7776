// The race on the page: two players on one clock, drawn as they play, and the outcome.

import { t } from "../../page/translate.js";
import { PEAK_SAMPLES } from "../worker/lane.js";
import { Opponent } from "./opponent.js";
import { drawRace, heightFor, latency, latencyText, outcome, shortSentence } from "./paint.js";
import { RaceRecord } from "./race_record.js";
import { Sharing } from "./share.js";

export const RACE_WPM = 150;
const MAX_WORDS = 40;
const COLOURS = ["ink", "muted", "line", "faint", "accent", "accent-soft", "accent-ink", "panel", "paper"];
const HINT = t("Both get the same keys at the same times. You hear the first, then the second.");
const [PLAY, STOP] = ["M4 2.5v11l9-5.5z", "M3.5 3.5h9v9h-9z"]; // shapes of the button's picture
const BUSY = t("In queue: the race begins when two slots are free.");

/** The first sentences of a text, at most MAX_WORDS words. */
export function raceText(text) {
  const words = text.trim().split(/\s+/);
  if (words.length <= MAX_WORDS) return words.join(" ");
  const cut = words.slice(0, MAX_WORDS).findLastIndex((word) => /[.!?]["'”’)]*$/.test(word));
  return words.slice(0, cut < 0 ? MAX_WORDS : cut + 1).join(" ");
}

export class Race {
  /**
   * @param root of the page
   * @param player
   * @param url of the socket
   * @param sample text for an empty field
   * @param requested settings of the page's address
   * @param on post(message, transfer) to the Worker; set(), after the opponent changed; changed(), after the state changed
   */
  constructor(root, player, url, sample, requested, on) {
    this.player = player;
    this.url = url;
    this.on = on;
    this.sample = sample;
    this.box = root.querySelector(".race");
    this.canvas = this.box.querySelector("canvas");
    this.paint = this.canvas.getContext("2d");
    this.button = this.box.querySelector('[data-do="race"]');
    this.output = this.box.querySelector(".race-status");
    this.state = "idle"; // idle | waiting | running | over
    this.channels = [];
    this.sharing = new Sharing(this.box, player, () => this.style());
    this.size = new ResizeObserver(() => this.draw());
    this.size.observe(this.canvas);
    this.theme = new MutationObserver(() => this.draw());
    this.theme.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    this.opponent = new Opponent(this.box, requested, () => {
      this.renew();
      this.on.set();
    });
    this.text = sample;
    this.renew();
  }

  /** Show a race that has not begun: its text and its lanes. */
  renew() {
    if (this.isRunning) return;
    this.sharing.offer(null);
    this.setState("idle");
    this.show(new RaceRecord(this.text, RACE_WPM, this.opponent.names));
    const [above, below] = this.opponent.names;
    this.canvas.setAttribute(
      "aria-label",
      t("Two lanes on one clock: words as they are played, and the sound. Above: {above}. Below: {below}.", {
        above,
        below,
      }),
    );
  }

  get isRunning() {
    return this.state === "waiting" || this.state === "running";
  }

  /** Draw a race. */
  show(record) {
    this.record = record;
    this.draw();
  }

  async start(text, rateHz) {
    this.stop();
    this.setState("waiting");
    this.sharing.offer(null);
    this.text = raceText(text || this.sample);
    this.show(new RaceRecord(this.text, RACE_WPM, this.opponent.names, rateHz));
    this.peaks = [[], []];
    this.beganMs = 0;
    this.message(HINT);
    await this.player.ready;
    if (this.state !== "waiting") return;
    // The second player is muted, and measures when its sound would have been played.
    this.channels = [1, 0].map((volume) => this.player.channel({ volume }, () => {}));
    const ports = this.channels.map((channel) => channel.port);
    const message = {
      type: "race",
      url: this.url,
      text: this.text,
      wpm: RACE_WPM,
      second: this.opponent.settings,
      ports,
      rateHz,
    };
    this.on.post(message, ports);
  }

  stop() {
    if (!this.isRunning) return;
    this.on.post({ type: "unrace" });
    this.close();
    this.message(t("Stopped."));
    this.setState("idle");
    this.show(new RaceRecord(this.text, RACE_WPM, this.opponent.names));
  }

  close() {
    for (const channel of this.channels) channel.close();
    this.channels = [];
  }

  setState(state) {
    this.state = state;
    this.box.dataset.state = state;
    this.opponent.setLocked(this.isRunning);
    this.button.lastElementChild.textContent = this.isRunning
      ? t("Stop the race")
      : state === "over"
        ? t("Race again")
        : t("Start the race");
    this.button.querySelector("path").setAttribute("d", this.isRunning ? STOP : PLAY);
    this.on.changed();
  }

  message(text) {
    if (this.output.textContent !== text) this.output.textContent = text;
  }

  // --- messages of the Worker -------------------------------------------------------------------

  receive(m) {
    if (this.isRunning) HANDLERS[m.what](this, m);
  }

  /** Update the record with the playback position of each lane, and draw. */
  tick() {
    if (this.state !== "running") return;
    const { record } = this;
    const tMs = this.nowMs();
    this.channels.forEach((channel, k) => {
      const position = channel.clock.position();
      if (!position) return;
      const isSecond = position.play > 1; // play 1 is the lane's own sound
      if (!isSecond) record.addLevels(k, position.sample, tMs, (from, to) => this.peak(k, from, to));
      if (k === 0 && !isSecond) record.light(0, position.sample, tMs);
      if (k === 0 && isSecond && position.playing) record.startSecond(tMs);
      if (k === 0 && isSecond) record.light(1, position.sample, tMs);
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

  // --- drawing ----------------------------------------------------------------------------------

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

const HANDLERS = {
  queued: (race) => race.message(BUSY),
  begin(race, m) {
    race.beganMs = m.beganMs;
    race.record.begin(m.keys);
    race.message(HINT);
    race.setState("running");
  },
  event: (race, m) => race.record.event(m.lane, m.event),
  peaks(race, m) {
    const first = Math.round(m.first / PEAK_SAMPLES);
    for (const [k, peak] of m.peaks.entries()) race.peaks[m.lane][first + k] = peak;
  },
  heard(race, m) {
    const lane = race.record.lanes[m.lane];
    lane.firstMs = m.ms - race.beganMs;
    lane.audible = m.sample;
    if (m.lane === 0) race.box.dataset.heardAtMs = String(m.ms);
    if (outcome(race.record))
      race.box.dataset.earlier = String(race.record.lanes[1].firstMs - race.record.lanes[0].firstMs);
  },
  over(race, m) {
    const { record } = race;
    record.end(race.nowMs());
    race.close();
    race.setState("over");
    const said = t("{name} was {outcome}: {first}, compared with {second}. Measured in this run.", {
      name: record.names[0],
      outcome: outcome(record),
      first: latencyText(record, 0),
      second: latency(record, 1),
    });
    const why = race.opponent.settings ? "" : shortSentence(record);
    race.message([said, why].filter(Boolean).join(" "));
    race.sharing.offer({ record, sounds: m.sounds });
    race.draw();
  },
  failed(race, m) {
    race.stop();
    race.message(t(m.message, m.values));
  },
};
