// The race: one text, typed once, to two lanes of one voice on one clock; word by word, and a sentence at a time.

import { Lane } from "./lane.js";
import { Schedule } from "./schedule.js";
import { Socket } from "../../wire/socket.js";
import { now, parsePacket } from "../../wire/packet.js";
import { Typed, keystrokes, sentenceArrivals } from "../../wire/typed.js";

export class Race {
  /** `ports` are those of the two players; the second one is silent, and measures. */
  constructor({ url, text, wpm, settings, ports, rateHz }, post) {
    Object.assign(this, { settings, beganMs: 0, isOver: false });
    this.tell = (message) => post({ type: "race", ...message });
    this.keys = keystrokes(text, wpm);
    const on = { say: (message) => this.socket.send(message), tell: this.tell, changed: () => this.changed() };
    this.lanes = ports.map((port, number) => new Lane(number, { port, rateHz }, on));
    this.socket = new Socket(url, this);
  }

  // --- what the server says ---------------------------------------------------------------------

  state(state) {
    if (state === "lost") this.fail("The connection to the server is lost.");
    else for (const lane of this.lanes) lane.open(this.settings);
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
    const [words, sentences] = this.lanes;
    if (!this.beganMs && words.isReady && sentences.isReady) this.begin();
    if (words.isOver && !words.isSecond && sentences.u.first.audibleMs) words.say(sentences);
    else if (words.isOver && words.isSecond && sentences.isOver) this.end();
  }

  /** Both have a place: from here on the clock runs, and the same keys go to both. */
  begin() {
    this.beganMs = now();
    const typed = new Typed();
    for (const { tMs, text } of this.keys) typed.edit(typed.length, 0, text, this.beganMs + tMs);
    const zeroMs = typed.firstMs - this.beganMs; // sentences count from the first key
    const sentences = sentenceArrivals(typed).map(({ tMs, text }) => ({ tMs: tMs + zeroMs, text }));
    this.tell({ what: "begin", beganMs: this.beganMs, keys: this.keys });
    const [word, sentence] = this.lanes;
    this.schedules = [
      new Schedule(this.keys, { send: (text) => word.text(text), done: () => word.end() }),
      new Schedule(sentences, { send: (text) => sentence.sentence(text), done: () => sentence.end() }),
    ];
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
