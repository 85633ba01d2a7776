// The race: one text, with the same key times, sent to two lanes on one clock: a voice word by word, and the same voice a
// sentence at a time or another voice word by word.

import { t } from "../../page/translate.js";
import { now, parsePacket } from "../../wire/packet.js";
import { Socket } from "../../wire/socket.js";
import { keystrokes, sentenceArrivals, TimedText } from "../../wire/timed_text.js";
import { Lane } from "./lane.js";
import { Schedule } from "./schedule.js";

export class Race {
  /**
   * `ports` of the two players; the second is muted, and measures. `second` are the settings of the second lane; null for
   * the settings of the first, with text sent a sentence at a time.
   */
  constructor({ url, text, wpm, settings, second, ports, rateHz }, post) {
    this.settings = [settings, second ?? settings];
    this.isSentences = !second;
    this.beganMs = 0;
    this.isOver = false;
    this.post = (message) => post({ type: "race", ...message });
    this.keys = keystrokes(text, wpm);
    const on = { send: (message) => this.socket.send(message), post: this.post, changed: () => this.changed() };
    this.lanes = ports.map((port, number) => new Lane(number, { port, rateHz }, on));
    this.socket = new Socket(url, this);
  }

  // --- socket callbacks -------------------------------------------------------------------------

  state(state) {
    if (state === "lost") this.fail(t("Connection to the server lost."));
    else for (const lane of this.lanes) lane.open(this.settings[lane.number]);
  }

  isBusy() {
    return !this.isOver;
  }

  text(m) {
    const lane = this.lanes[m.utterance];
    if (m.type === "error" || m.type === "failed") return this.fail(m.message);
    if (m.type === "queued") this.post({ what: "queued", ahead: m.ahead });
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
    if (first.isOver && !first.isSecond && second.u.first.audibleMs) first.playSound(second);
    else if (first.isOver && first.isSecond && second.isOver) this.end();
  }

  /** Both lanes are admitted: start the clock and the key presses. */
  begin() {
    this.beganMs = now();
    const typed = new TimedText();
    for (const { tMs, text } of this.keys) typed.edit(typed.length, 0, text, this.beganMs + tMs);
    const zeroMs = typed.firstMs - this.beganMs; // sentence times count from the first key
    this.post({ what: "begin", beganMs: this.beganMs, keys: this.keys });
    this.schedules = this.lanes.map((lane, k) => {
      if (!k || !this.isSentences)
        return new Schedule(this.keys, { send: (text) => lane.text(text), done: () => lane.end() });
      const sentences = sentenceArrivals(typed).map(({ tMs, text }) => ({ tMs: tMs + zeroMs, text }));
      return new Schedule(sentences, { send: (text) => lane.sentence(text), done: () => lane.end() });
    });
  }

  end() {
    this.close();
    const sounds = this.lanes.map(({ u }, k) => ({
      gaps: k ? [] : u.gaps,
      chunks: u.pcm,
      samples: u.samples,
      rateHz: u.rateHz,
    }));
    this.post({ what: "over", sounds });
  }

  fail(message) {
    if (this.isOver) return;
    this.close();
    this.post({ what: "failed", message });
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
