// The Worker of a live screen: it owns the rater's socket and feeds the player, so that a busy page never starves the sound.

import { Feed } from "../sound/feed.js";
import { Socket } from "../wire/socket.js";
import { parsePacket } from "../wire/packet.js";

const SILENT = -1; // no mark: nobody asks here when the first sound left the player

class Line {
  constructor(url, token, post) {
    Object.assign(this, { token, post, next: 1, take: null, isIn: false, wanted: null });
    this.feed = new Feed(this);
    this.socket = new Socket(url, this);
  }

  // --- what the socket says ---------------------------------------------------------------------

  state(state) {
    if (state === "open") this.socket.send({ type: "enter", token: this.token });
    if (state !== "lost") return;
    this.isIn = false;
    this.post({ type: "state", isOpen: false });
    if (this.wanted) this.post({ type: "dropped", slot: this.wanted.slot, why: "lost" });
    this.wanted = null;
    this.drop("lost");
  }

  isBusy() {
    return this.take !== null || this.wanted !== null;
  }

  packet(buffer) {
    const p = parsePacket(buffer);
    if (p && p.utterance === this.take?.id) this.feed.packet(p, SILENT);
  }

  text(m) {
    if (m.type === "entered") return this.entered();
    if (m.type === "error" && m.utterance === undefined && !this.take) return this.post({ type: "refused", message: m.message });
    const { take } = this;
    if (!take || (m.utterance !== undefined && m.utterance !== take.id)) return undefined;
    return HEARD[m.type]?.(this, m, take);
  }

  entered() {
    this.isIn = true;
    this.post({ type: "state", isOpen: true });
    const { wanted } = this;
    this.wanted = null;
    if (wanted) this.begin(wanted);
  }

  settle() {
    const { take } = this;
    if (!take.keptSamples || !take.isOut) return;
    this.take = null;
    this.post({ type: "finished", slot: take.slot, ms: (1000 * take.keptSamples) / take.rateHz });
  }

  /** The take comes to nothing; `why` is lost, again, busy or failed. */
  drop(why, more = {}) {
    const { take } = this;
    if (!take) return;
    this.take = null;
    this.feed.stop(false);
    this.post({ type: "dropped", slot: take.slot, why, ...more });
  }

  // --- what the player says ---------------------------------------------------------------------

  report(m) {
    const { take } = this;
    if (!take) return;
    const buffered = (1000 * m.buffered) / take.rateHz;
    this.socket.send({ type: "played", utterance: take.id, sample: m.sample, buffered_ms: buffered, underruns: m.underruns, output_latency_ms: 0 });
  }

  done() {
    if (!this.take) return;
    this.take.isOut = true;
    this.settle();
  }

  fault(m) {
    this.post({ type: "refused", message: `The player got samples from ${m.first} on, but needed ${m.expected}.` });
  }

  begun() {}
  resumed() {}
  audible() {}
  stopped() {}

  // --- what the rater does ----------------------------------------------------------------------

  begin({ trial, slot, rateHz }) {
    if (this.socket.isAsleep) this.isIn = false;
    if (!this.isIn) {
      this.wanted = { trial, slot, rateHz }; // begun as soon as the socket has let the rater in
      return this.socket.wake();
    }
    this.take = { id: this.next++, slot, rateHz, keptSamples: 0, isOpen: false, isOut: false };
    this.feed.begin();
    this.say({ type: "take", trial, slot });
  }

  say(message) {
    if (this.take) this.socket.send({ ...message, utterance: this.take.id });
  }

  stop() {
    this.wanted = null;
    if (!this.take) return;
    this.say({ type: "cancel" });
    this.take = null;
    this.feed.stop(false);
  }
}

const HEARD = {
  opened(line, m, take) {
    take.isOpen = true;
    line.post({ type: "opened", slot: take.slot });
  },
  queued: (line, m, take) => line.post({ type: "queued", slot: take.slot, ahead: m.ahead }),
  typed: (line, m) => line.post(m),
  ended: (line) => line.feed.final(),
  kept(line, m, take) {
    take.keptSamples = m.samples;
    line.settle();
  },
  may_skip: (line) => line.post({ type: "skippable" }),
  again: (line) => line.drop("again"),
  dropped: (line) => line.drop("failed", { message: "" }),
  error(line, m, take) {
    if (take.isOpen && m.code !== "mute") return line.post({ type: "refused", message: m.message });
    return line.drop(m.code === "busy" ? "busy" : "failed", { message: m.message, retryMs: m.retry_ms });
  },
};

let line = null;

const COMMANDS = {
  start: (m) => (line = new Line(m.url, m.token, (message) => self.postMessage(message))),
  port: (m) => line.feed.connect(m.port, m.rateHz),
  begin: (m) => line.begin(m),
  edit: ({ at, remove, insert }) => line.say({ type: "edit", at, remove, insert }),
  end: () => line.say({ type: "end" }),
  stop: () => line.stop(),
};

self.onmessage = ({ data }) => COMMANDS[data.type](data);
