// Utterances that are not typed: a simulated language model, a sample of a speaker, and typed text sent by sentences.

import { now } from "../../wire/packet.js";
import { sentenceArrivals, tokenArrivals } from "../../wire/timed_text.js";
import { Schedule } from "./schedule.js";

/** A simulated language model: types `text` into the field at `rate` tokens per second, after the text `before`. */
export function typeAsModel(session, text, rate, before = "") {
  const resume = (spoken) => typeAsModel(session, text.slice(spoken.length), rate, before + spoken);
  const arrivals = tokenArrivals(text, rate);
  let fieldText = before;
  const onText = (piece) => {
    fieldText = piece ? fieldText + piece : before; // "" at each start of the utterance
    session.keyboard.adopt(fieldText);
    session.post({ type: "typed", text: fieldText });
  };
  stream(session, "llm", arrivals, { base: Array.from(before).length, more: { fullText: text, resume }, onText });
}

/** The reply of the server's language model, whose text the server sends to the voice. */
export function askModel(session, messages) {
  const u = session.open("chat", "stream", () => askModel(session, messages));
  if (u) session.send({ type: "ask", messages });
}

/** A sample sentence of the selected speaker. */
export function speakSample(session, text) {
  stream(session, "sample", [{ tMs: 0, text }]);
}

/** The typed text of `live`, sent only at the end of each sentence, at the original times. */
export function speakBySentence(session, live) {
  stream(session, "old", sentenceArrivals(live.typed), { base: live.base, live });
}

function stream(session, mode, arrivals, { base = null, live = null, more = {}, onText = (_text) => {} } = {}) {
  const restart = () => stream(session, mode, arrivals, { base, live, more, onText });
  const u = session.open(mode, "stream", restart, base);
  if (!u) return;
  Object.assign(u, more);
  onText("");
  const began = now();
  // Both modes are measured from the first finished word.
  if (live) u.first.wordMs = began + live.first.wordMs - live.typed.firstMs;
  let pushed = 0;
  const send = (text) => {
    const at = now();
    u.typed.edit(u.typed.length, 0, text, at);
    u.noteSent(at, live ? `${text} ` : text);
    pushed += Array.from(text).length;
    session.send({ type: "text", text });
    onText(text);
    if (live) session.send({ type: "flush" }); // a sentence does not wait for the next one
  };
  const tick = (elapsedMs) => {
    const to = Math.max(pushed, live.typed.countArrived(elapsedMs));
    session.post({ type: "held", text: live.typed.text(pushed, to) });
  };
  session.schedule = new Schedule(arrivals, { send, tick: live ? tick : null, done: () => session.finish() });
}
