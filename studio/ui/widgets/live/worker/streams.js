// Text that is not typed: a simulated language model, a speaker's sample, and the same text the old way.

import { Schedule } from "./schedule.js";
import { sentenceArrivals, tokenArrivals } from "../../wire/typed.js";
import { now } from "../../wire/packet.js";

/** A language model that types `text` at `rate` tokens a second into the field, behind what it has said `before`. */
export function typeAsModel(session, text, rate, before = "") {
  const again = (said) => typeAsModel(session, text.slice(said.length), rate, before + said);
  const arrivals = tokenArrivals(text, rate);
  let shown = before;
  const typed = (piece) => {
    shown = piece ? shown + piece : before; // nothing is said first, each time it is begun
    session.keyboard.adopt(shown);
    session.post({ type: "typed", text: shown });
  };
  stream(session, "llm", arrivals, { base: Array.from(before).length, more: { wanted: text, again }, typed });
}

/** One sentence of a speaker's. */
export function saySample(session, text) {
  stream(session, "sample", [{ tMs: 0, text }]);
}

/** What was said while typing, pushed at each sentence's end only, at the times at which it was typed. */
export function sayOldWay(session, live) {
  stream(session, "old", sentenceArrivals(live.typed), { base: live.base, live });
}

function stream(session, mode, arrivals, { base = null, live = null, more = {}, typed = () => {} } = {}) {
  const u = session.open(mode, "stream", () => stream(session, mode, arrivals, { base, live, more, typed }), base);
  if (!u) return;
  Object.assign(u, more);
  typed("");
  const began = now();
  // Both ways are measured from the same moment: the first word that was finished.
  if (live) u.first.wordMs = began + live.first.wordMs - live.typed.firstMs;
  let pushed = 0;
  const send = (text) => {
    const at = now();
    u.typed.edit(u.typed.length, 0, text, at);
    u.sent(at, live ? `${text} ` : text);
    pushed += Array.from(text).length;
    session.say({ type: "text", text });
    typed(text);
    if (live) session.say({ type: "flush" }); // a sentence is said whole: it does not wait for the next one
  };
  const tick = (elapsedMs) => {
    const to = Math.max(pushed, live.typed.arrived(elapsedMs));
    session.post({ type: "held", text: live.typed.text(pushed, to) });
  };
  session.schedule = new Schedule(arrivals, { send, tick: live ? tick : null, done: () => session.finish() });
}
