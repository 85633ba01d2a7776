// The race: one text, typed once, to two lanes on one clock: a voice word by word, and the same a sentence at a time, or
// another voice or setting word by word.

import { Lane } from "./lane.js";
import { Schedule } from "./schedule.js";
import { Socket } from "../../wire/socket.js";
import { now, parsePacket } from "../../wire/packet.js";
import { Typed, keystrokes, sentenceArrivals } from "../../wire/typed.js";

export class Race {
  /**
   * `ports` are those of the two players; the second one is silent, and measures. `second` are the settings of the second
   * lane; null where it has those of the first, and is typed to a sentence at a time.
   */
  constructor({ url, text, wpm, settings, second, ports, rateHz }, post) {
    Object.assign(this, { settings: [settings, second ?? settings], isSentences: !second, beganMs: 0, isOver: false });
    this.tell = (message) => post({ type: "race", ...message });
    this.keys = keystrokes(text, wpm);
    const on = { say: (message) => this.socket.send(message), tell: this.tell, changed: () => this.changed() };
    this.lanes = ports.map((port, number) => new Lane(number, { port, rateHz }, on));
    this.socket = new Socket(url, this);
  }

  // --- what the server says ---------------------------------------------------------------------

  state(state) {
    if (state === "lost") this.fail("The connection to the server is lost.");
    else for (const lane of this.lanes) lane.open(this.settings[lane.number]);
  }

  isBusy() {
    return !this.isOver;
  }

  text(m) {
    const lane = this.lanes[m.utterance];
    if (m.type === "error" || m.type === "failed") return this.fail(m.message);
    if (m.type === "queued") this.tell({ what: "queued", ahead: m.ahead });
    return lane?.event(m);
  }

  packet(buffer) {
    const p = parsePacket(buffer);
    if (p) this.lanes[p.utterance]?.packet(p);
  }

  // --- the race ---------------------------------------------------------------------------------

  changed() {
    if (this.isOver) return;
    const [first, second] = this.lanes;
    if (!this.beganMs && first.isReady && second.isReady) this.begin();
    if (first.isOver && !first.isSecond && second.u.first.audibleMs) first.say(second);
    else if (first.isOver && first.isSecond && second.isOver) this.end();
  }

  /** Both have a place: from here on the clock runs, and the same keys go to both. */
  begin() {
    this.beganMs = now();
    const typed = new Typed();
    for (const { tMs, text } of this.keys) typed.edit(typed.length, 0, text, this.beganMs + tMs);
    const zeroMs = typed.firstMs - this.beganMs; // sentences count from the first key
    this.tell({ what: "begin", beganMs: this.beganMs, keys: this.keys });
    this.schedules = this.lanes.map((lane, k) => {
      if (!k || !this.isSentences) return new Schedule(this.keys, { send: (text) => lane.text(text), done: () => lane.end() });
      const sentences = sentenceArrivals(typed).map(({ tMs, text }) => ({ tMs: tMs + zeroMs, text }));
      return new Schedule(sentences, { send: (text) => lane.sentence(text), done: () => lane.end() });
    });
  }

  end() {
    this.close();
    const sounds = this.lanes.map(({ u }, k) => ({ gaps: k ? [] : u.gaps, chunks: u.pcm, samples: u.samples, rateHz: u.rateHz }));
    this.tell({ what: "over", sounds });
  }

  fail(message) {
    if (this.isOver) return;
    this.close();
    this.tell({ what: "failed", message });
  }

  close() {
    this.isOver = true;
    for (const schedule of this.schedules ?? []) schedule.stop();
    this.socket.close();
  }

  stop() {
    for (const lane of this.lanes) lane.feed.stop(false);
    if (!this.isOver) this.close();
  }
}
