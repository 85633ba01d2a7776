// Unspoken text, stored to be spoken later: after a lost connection, from the first word without all its samples; and text
// that was not admitted yet when another sound began.

/** A function that speaks the remaining text of an utterance; null if there is none. */
export function remainingText(session, u) {
  return (REMAINING[u.mode] ?? (() => null))(session, u);
}

const REMAINING = {
  /** Set the keyboard back to the first unspoken word; later text follows it. */
  keyboard(session, u) {
    const { keyboard } = session;
    const from = u.base + positionOfWord(u.sentText, u.spokenChars, u.typed.text());
    const end = u.base + u.typed.length;
    if (keyboard.field.text(u.base, end) !== u.typed.text() || !keyboard.field.text(from, end).trim()) return null;
    keyboard.base = from;
    return () => {
      session.endsNext = u.ending;
      keyboard.open();
    };
  },
  llm(_session, u) {
    const chars = Array.from(u.fullText);
    const spoken = chars.slice(0, u.spokenChars).join("");
    return chars.slice(u.spokenChars).join("").trim() ? () => u.resume(spoken) : null;
  },
};

/** A function that speaks text that waits for a slot or the connection, or was cut off; null if there is none. */
export function pendingText(session) {
  const { keyboard, current: u, phase } = session;
  if (session.speakStored) return session.speakStored;
  if (u?.isQueued && u.mode === "keyboard") keyboard.reclaim(u);
  const later = phase === "waiting" ? session.retry : u?.isQueued ? session.restart : null;
  const { endsNext } = session;
  return (
    later &&
    (() => {
      session.endsNext = endsNext;
      later();
    })
  );
}

/**
 * The position in the field of the word at `at` in the text as sent; code points. Words are counted, because spoken words
 * may have been corrected in the field.
 */
export function positionOfWord(sent, at, field) {
  const before =
    Array.from(sent)
      .slice(0, at)
      .join("")
      .match(/\S+(?=\s)/g)?.length ?? 0;
  const word = /\s*\S+\s+/gy;
  let end = 0;
  for (let k = 0; k < before && word.test(field); k++) end = word.lastIndex;
  return Array.from(field.slice(0, end)).length;
}
