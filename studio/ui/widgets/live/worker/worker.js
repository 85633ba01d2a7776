// The Worker: it owns the socket and feeds the player, so that a busy page never starves the sound.

import { Session } from "./session.js";

let session = null;

const COMMANDS = {
  start: (m) => (session = new Session(m.url, (message) => self.postMessage(message))),
  port: (m) => session.feed.connect(m.port, m.rateHz),
  latency: (m) => (session.latencyMs = m.ms),
  settings: (m) => session.change(m.settings, m.rateHz),
  edit: (m) => session.edit(m),
  speak: (m) => session.speakAll(m),
  finish: () => session.finish(),
  stop: (m) => session.stop(m),
  clear: (m) => session.clear(m),
  llm: (m) => session.llm(m),
  old: () => session.old(),
  replay: () => session.replay(),
  rest: () => session.sayRest(),
};

self.onmessage = ({ data }) => COMMANDS[data.type](data);
