// Handlers of the player's messages, for the utterance of the session.

import { t } from "../../page/translate.js";
import { now } from "../../wire/packet.js";

const EXPLAIN_MS = 150; // the server's reason for a wait may arrive after the sound

export class PlayerEvents {
  constructor(session) {
    this.session = session;
  }

  onBegin(play) {
    const { session } = this;
    const { current, rateHz, replayFrom: from } = session;
    const mode = session.phase === "replay" ? "replay" : session.mode;
    session.post({ type: "begin", play, id: current?.id, mode, base: current?.base ?? null, from, rateHz });
  }

  onReport(m) {
    const { session } = this;
    const u = session.current;
    if (!u || session.phase === "replay") return;
    u.playedSample = m.sample;
    u.bufferedMs = (m.buffered * 1000) / session.rateHz;
    if (u.ended || session.phase === "stopping") return;
    const { sample, underruns } = m;
    session.send({
      type: "played",
      sample,
      buffered_ms: u.bufferedMs,
      underruns,
      output_latency_ms: session.latencyMs,
    });
  }

  onResumed(sample, frames) {
    const { session } = this;
    const u = session.current;
    if (!u || session.phase === "replay") return;
    const gap = u.gap(sample, frames);
    setTimeout(() => {
      u.explain(gap);
      if (u !== session.current) return;
      if (gap.reason !== "text") session.feed.increasePrebuffer();
      session.outbox.add({ type: "gap", ...gap });
    }, EXPLAIN_MS);
  }

  onAudible(m) {
    const { session } = this;
    if (!session.current || session.phase === "replay") return;
    session.current.first.audibleMs = m.date + (now() - Date.now());
    session.postFigures();
  }

  onDone() {
    this.session.playbackEnded();
  }

  onStopped(m) {
    const { session } = this;
    const u = session.current;
    if (!u) return;
    session.stoppedAt = m.sample;
    if (session.phase === "replay" || u.ended) return void session.playbackEnded();
    u.playedSample = m.sample;
    session.send({ type: "cancel", played_sample: m.sample });
  }

  onFault(m) {
    const message = t("The player received samples from {first} on; it expected {expected}.");
    this.session.post({ type: "error", code: "player", message, values: { first: m.first, expected: m.expected } });
  }
}
