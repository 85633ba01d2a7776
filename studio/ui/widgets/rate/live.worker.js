// The Worker of a live screen: owns the rater's socket and feeds the player, independently of the page's main thread.

import { Feed } from "../sound/feed.js";
import { parsePacket } from "../wire/packet.js";
import { Socket } from "../wire/socket.js";

const NO_MARK = -1; // the time of the first sound is not measured here

class Session {
  constructor(url, token, post) {
    this.token = token;
    this.post = post;
    this.next = 1;
    this.take = null;
    this.isEntered = false;
    this.pending = null;
    this.feed = new Feed(this);
    this.socket = new Socket(url, this);
  }

  // --- socket callbacks -------------------------------------------------------------------------

  state(state) {
    if (state === "open") this.socket.send({ type: "enter", token: this.token });
    if (state !== "lost") return;
    this.isEntered = false;
    this.post({ type: "state", isOpen: false });
    if (this.pending) this.post({ type: "dropped", slot: this.pending.slot, why: "lost" });
    this.pending = null;
    this.drop("lost");
  }

  isBusy() {
    return this.take !== null || this.pending !== null;
  }

  packet(buffer) {
    const p = parsePacket(buffer);
    if (p && p.utterance === this.take?.id) this.feed.packet(p, NO_MARK);
  }

  text(m) {
    if (m.type === "entered") return this.entered();
    if (m.type === "error" && m.utterance === undefined && !this.take)
      return this.post({ type: "refused", message: m.message });
    const { take } = this;
    if (!take || (m.utterance !== undefined && m.utterance !== take.id)) return undefined;
    return HANDLERS[m.type]?.(this, m, take);
  }

  entered() {
    this.isEntered = true;
    this.post({ type: "state", isOpen: true });
    const { pending } = this;
    this.pending = null;
    if (pending) this.begin(pending);
  }

  settle() {
    const { take } = this;
    if (!take.storedSamples || !take.isOut) return;
    this.take = null;
    this.post({ type: "finished", slot: take.slot, ms: (1000 * take.storedSamples) / take.rateHz });
  }

  /** Discard the take; `why` is lost, again, busy or failed. */
  drop(why, more = {}) {
    const { take } = this;
    if (!take) return;
    this.take = null;
    this.feed.stop(false);
    this.post({ type: "dropped", slot: take.slot, why, ...more });
  }

  // --- player callbacks -------------------------------------------------------------------------

  onReport(m) {
    const { take } = this;
    if (!take) return;
    const buffered = (1000 * m.buffered) / take.rateHz;
    this.socket.send({
      type: "played",
      utterance: take.id,
      sample: m.sample,
      buffered_ms: buffered,
      underruns: m.underruns,
      output_latency_ms: 0,
    });
  }

  onDone() {
    if (!this.take) return;
    this.take.isOut = true;
    this.settle();
  }

  onFault(m) {
    this.post({
      type: "refused",
      message: `The player received samples from ${m.first} on; it expected ${m.expected}.`,
    });
  }

  onBegin() {}
  onResumed() {}
  onAudible() {}
  onStopped() {}

  // --- commands of the page ---------------------------------------------------------------------

  begin({ trial, slot, rateHz }) {
    if (this.socket.isAsleep) this.isEntered = false;
    if (!this.isEntered) {
      this.pending = { trial, slot, rateHz }; // sent after `entered`
      return this.socket.wake();
    }
    this.take = { id: this.next++, slot, rateHz, storedSamples: 0, isOpen: false, isOut: false };
    this.feed.begin();
    this.send({ type: "take", trial, slot });
  }

  send(message) {
    if (this.take) this.socket.send({ ...message, utterance: this.take.id });
  }

  stop() {
    this.pending = null;
    if (!this.take) return;
    this.send({ type: "cancel" });
    this.take = null;
    this.feed.stop(false);
  }
}

const HANDLERS = {
  opened(session, _m, take) {
    take.isOpen = true;
    session.post({ type: "opened", slot: take.slot });
  },
  queued: (session, m, take) => session.post({ type: "queued", slot: take.slot, ahead: m.ahead }),
  typed: (session, m) => session.post(m),
  ended: (session) => session.feed.final(),
  kept(session, m, take) {
    take.storedSamples = m.samples;
    session.settle();
  },
  may_skip: (session) => session.post({ type: "skippable" }),
  again: (session) => session.drop("again"),
  dropped: (session) => session.drop("failed", { message: "" }),
  error(session, m, take) {
    if (take.isOpen && m.code !== "mute") return session.post({ type: "refused", message: m.message });
    return session.drop(m.code === "busy" ? "busy" : "failed", { message: m.message, retryMs: m.retry_ms });
  },
};

let session = null;

const COMMANDS = {
  start: (m) => (session = new Session(m.url, m.token, (message) => self.postMessage(message))),
  port: (m) => session.feed.connect(m.port, m.rateHz),
  begin: (m) => session.begin(m),
  edit: ({ at, remove, insert }) => session.send({ type: "edit", at, remove, insert }),
  end: () => session.send({ type: "end" }),
  stop: () => session.stop(),
};

self.onmessage = ({ data }) => COMMANDS[data.type](data);
