// Text that is not typed: a simulated language model, and the same text the old way.

import { Schedule } from "./schedule.js";
import { sentenceArrivals, tokenArrivals } from "../../wire/typed.js";
import { now } from "../../wire/packet.js";

/** A language model that types `text` at `rate` tokens a second. */
export function typeAsModel(session, text, rate) {
  stream(session, "llm", tokenArrivals(text, rate), null, { wanted: text, again: (rest) => typeAsModel(session, rest, rate) });
}

/** What was said while typing, pushed at each sentence's end only, at the times at which it was typed. */
export function sayOldWay(session, live) {
  stream(session, "old", sentenceArrivals(live.typed), live);
}

function stream(session, mode, arrivals, live, more = {}) {
  const u = session.open(mode, "stream", () => stream(session, mode, arrivals, live, more));
  if (!u) return;
  Object.assign(u, more);
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
    if (live) session.say({ type: "flush" }); // a sentence is said whole: it does not wait for the next one
  };
  const tick = (elapsedMs) => {
    const to = Math.max(pushed, live.typed.arrived(elapsedMs));
    session.post({ type: "held", text: live.typed.text(pushed, to) });
  };
  session.schedule = new Schedule(arrivals, { send, tick: live ? tick : null, done: () => session.finish() });
}
