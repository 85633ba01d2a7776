// The Worker: owns the socket and feeds the player, so that a busy page does not interrupt the sound.

import { Race } from "./race.js";
import { Session } from "./session.js";
import { loadShared } from "./shared.js";

const BATCH_MS = 12;

/** Batches messages to the page, so that many words do not become as many tasks. */
class Outbox {
  constructor(post) {
    this.post = post;
    this.batch = [];
    this.timer = null;
  }

  add(message) {
    this.batch.push(message);
    this.timer ??= setTimeout(() => this.flush(), BATCH_MS);
  }

  flush() {
    clearTimeout(this.timer);
    this.timer = null;
    if (this.batch.length) this.post({ type: "batch", list: this.batch.splice(0) });
  }
}

const post = (message, transfer) => self.postMessage(message, transfer);
let session = null;
let race = null;

const COMMANDS = {
  start: (m) => (session = new Session(m.url, post, new Outbox(post))),
  port: (m) => session.feed.connect(m.port, m.rateHz),
  latency: (m) => (session.latencyMs = m.ms),
  settings: (m) => session.change(m.settings, m.rateHz),
  edit: (m) => session.edit(m),
  speak: (m) => session.speakAll(m),
  finish: () => session.finish(),
  stop: (m) => session.stopAll(m),
  stopAndStore: (m) => session.stopAndStore(m),
  clear: (m) => session.clear(m),
  llm: (m) => session.llm(m),
  ask: (m) => session.ask(m),
  smooth: (m) => (session.isSmooth = m.isSmooth),
  adopt: (m) => session.keyboard.adopt(m.text),
  sample: (m) => session.sample(m),
  old: () => session.speakBySentence(),
  replay: () => session.replay(),
  shared: (m) => loadShared(session, m),
  rest: () => session.speakRest(),
  race: (m) => (race = new Race({ ...m, settings: structuredClone(session.settings) }, post)),
  unrace: () => race?.stop(),
};

self.onmessage = ({ data }) => COMMANDS[data.type](data);
