// The Worker's connection to the server: the socket, and the handlers of its messages.

import { t } from "../../page/translate.js";
import { now, parsePacket } from "../../wire/packet.js";
import { Socket } from "../../wire/socket.js";
import { rateFor, typedWpm } from "./pacing.js";
import { remainingText } from "./remaining_text.js";

const RETRY_MS = 2000; // without a time from the server
const TOO_SLOW = 1.05; // real-time factor above which a server is slow
const GOES_ON = ["bad_option", "chat_failed"]; // errors after which the utterance's last event comes
const JUDGED_MS = 1000; // of sound, before a server is called slow

export class Connection {
  constructor(url, session) {
    this.session = session;
    this.socket = new Socket(url, this);
  }

  // --- socket callbacks -------------------------------------------------------------------------

  state(state, retryMs) {
    const { session } = this;
    session.post({ type: "socket", state, retryMs });
    if (state === "lost") this.lost();
    else if (session.phase === "waiting" && session.retry) session.again();
  }

  isBusy() {
    const { current } = this.session;
    return current !== null && !current.ended;
  }

  text(m) {
    const { session } = this;
    if (m.type === "hello") return session.post(m);
    const u = session.current;
    if (m.type === "error") return this.error(m);
    if (m.type === "trace") {
      const owner = [u, session.last].find((one) => one?.id === m.utterance);
      return session.post({ ...m, mode: owner?.mode });
    }
    if (!u || m.utterance !== u.id) return undefined;
    if (m.type === "queued" || m.type === "ready") this.admission(u, m);
    if (m.type === "failed" && u.isQueued) return this.rejected(m);
    u.event(m);
    session.outbox.add(m);
    if (m.type === "revised") session.feed.cut(m.from_sample);
    if (m.type === "word_end") this.wordEnded(u, m);
    if (m.type === "flushed") session.feed.holdPhrases(false); // after a pause in typing, play everything
    if (m.type === "committed") session.feed.holdPhrases(u.byPhrase);
    if (m.type === "ended" || m.type === "failed") this.ended(m);
    return undefined;
  }

  packet(buffer) {
    const { session } = this;
    const p = parsePacket(buffer);
    const u = session.current;
    if (!p || !u || p.utterance !== u.id || p.take < u.take || session.phase === "stopping") return;
    const mark = u.packet(p);
    const columns = u.spectrum.push(p.pcm);
    if (columns.length) session.outbox.add({ type: "columns", data: columns });
    session.feed.packet(p, mark);
    if (!session.isSlow && u.pace.audioMs > JUDGED_MS && u.slowness > TOO_SLOW) session.setSlow(true);
  }

  /** After an idle close: whether the messages in flight will be sent again on the next socket. */
  requeue() {
    const { session } = this;
    if (session.current.isKnown || session.phase === "stopping") return false;
    session.requeue();
    return true;
  }

  // --- messages ---------------------------------------------------------------------------------

  /** Release a word for playback, or its phrase if it is complete. */
  wordEnded(u, m) {
    const { feed, phrases } = this.session;
    if (feed.holdsPhrases && !phrases.endsWith(u.words, m.i)) return;
    if (feed.holdsPhrases) feed.setRate(rateFor(typedWpm(u.words)));
    feed.release(m.sample);
  }

  /** A queue position, or admission. */
  admission(u, m) {
    const { session } = this;
    u.isKnown = true;
    session.post({ type: "queue", ahead: m.ahead ?? null });
    if (u.isQueued && m.type === "ready") {
      u.closing = { tMs: now(), cause: "queue" }; // the latency shown excludes the queue
      session.keyboard.inputMs = now();
    }
    u.isQueued = m.type === "queued";
  }

  /** The utterance failed in the queue; its text stays in the field. */
  rejected(m) {
    const { session } = this;
    session.current.ended = true;
    session.discard();
    session.post({
      type: "error",
      code: "unplaced",
      message: t("{reason}. Your text is stored: press Speak to try again."),
      values: { reason: m.message },
    });
  }

  error(m) {
    const { session } = this;
    const isOfSocket = m.utterance === undefined;
    if (!isOfSocket && m.utterance !== session.current?.id) return; // of an earlier utterance
    const isBusy = !isOfSocket && m.code === "busy";
    const isInvalid = !isOfSocket && m.code === "bad_option" && !session.current.isKnown;
    if (isBusy && session.phase === "stopping") return void session.playbackEnded();
    if (isBusy) {
      session.requeue();
      session.retryTimer = setTimeout(() => session.again(), m.retry_ms ?? RETRY_MS);
    } else if (isInvalid) {
      // The settings are not compatible: the text waits for others.
      if (session.mode === "keyboard") session.keyboard.reclaim(session.current);
      session.endsNext = false;
      session.discard();
    } else if (!isOfSocket && !GOES_ON.includes(m.code) && !session.current.samples) {
      session.discard();
    }
    session.post(m);
  }

  /** The last event of the utterance. */
  ended(m) {
    const { session } = this;
    session.schedule?.stop();
    session.closeTyped();
    if (session.phase === "stopping" || session.current.samples === 0) return session.playbackEnded();
    session.setPhase("ending");
    session.feed.final();
    if (m.type === "failed") session.post({ type: "error", code: m.code, message: m.message });
    return undefined;
  }

  lost() {
    const { session } = this;
    const u = session.current;
    if (!u || u.ended) return;
    u.ended = true;
    session.schedule?.stop();
    session.closeTyped();
    session.speakStored = session.phase === "stopping" ? null : remainingText(session, u);
    session.post({ type: "cutoff", hasRest: session.speakStored !== null });
    if (session.phase === "stopping" || !u.samples) session.playbackEnded();
    else session.setPhase("ending");
    session.feed.final();
  }
}
