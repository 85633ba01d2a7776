// What is kept to be said later: what a lost connection cut off, from the first word whose sound had not come to its end,
// and what had no place yet when a race began.

/** A function that says the rest of an utterance, or null where nothing is left that can be said. */
export function restOf(session, u) {
  return (RESTS[u.mode] ?? (() => null))(session, u);
}

const RESTS = {
  /** The field goes back to where the voice was: what is typed next follows the rest. */
  keyboard(session, u) {
    const { keyboard } = session;
    const from = u.base + sameWords(u.sentText, u.saidChars, u.typed.text());
    const end = u.base + u.typed.length;
    if (keyboard.field.text(u.base, end) !== u.typed.text() || !keyboard.field.text(from, end).trim()) return null;
    keyboard.base = from;
    return () => {
      session.endsNext = u.ending;
      keyboard.open();
    };
  },
  llm(session, u) {
    const chars = Array.from(u.wanted);
    const said = chars.slice(0, u.saidChars).join("");
    return chars.slice(u.saidChars).join("").trim() ? () => u.again(said) : null;
  },
};

/** A function that says what waits for a place or for the connection, or was cut off; null where nothing is kept. */
export function keptOf(session) {
  const { keyboard, current: u, phase } = session;
  if (session.rest) return session.rest;
  if (u?.isQueued && u.mode === "keyboard") keyboard.reclaim(u);
  const later = phase === "waiting" ? session.retry : u?.isQueued ? session.restart : null;
  const { endsNext } = session;
  return later && (() => {
    session.endsNext = endsNext;
    later();
  });
}

/**
 * Where in the field the word stands that stands at `at` in the text as sent, in code points. Words said may have been
 * corrected in the field meanwhile, so words are counted.
 */
export function sameWords(sent, at, field) {
  const before = Array.from(sent).slice(0, at).join("").match(/\S+(?=\s)/g)?.length ?? 0;
  const word = /\s*\S+\s+/gy;
  let end = 0;
  for (let k = 0; k < before && word.test(field); k++) end = word.lastIndex;
  return Array.from(field.slice(0, end)).length;
}
