// Synthesizes one text in several variants, one after the other, over the Live page's socket (with its queue).

import { parsePacket } from "../wire/packet.js";
import { Socket } from "../wire/socket.js";

const CREDIT_MS = 60000; // how far the voice may run ahead
const AHEAD_S = 45; // interval of playback reports
const RETRY_MS = 2000;
const TOKEN = /traces\/([A-Za-z0-9_-]{22})\.trace/;

export class Speaker {
  /**
   * `jobs`: {label, voice, seed, temperature, speed, options} each. `on`: progress(job number, queue status or ""),
   * spoken(token, job), refused(message, job), done(error message, if any).
   */
  constructor(url, text, jobs, on) {
    this.source = text;
    this.jobs = jobs;
    this.on = on;
    this.number = -1;
    this.creditMs = CREDIT_MS;
    this.isOver = false;
    this.socket = new Socket(url, this);
  }

  get job() {
    return this.jobs[this.number];
  }

  // --- server messages --------------------------------------------------------------------------

  state(state) {
    if (this.isOver) return;
    if (state === "lost") this.finish("The connection to the server was lost.");
    else if (this.number < 0) this.next();
  }

  isBusy() {
    return !this.isOver;
  }

  text(m) {
    if (m.type === "hello" || this.isOver) return;
    if (m.utterance === undefined && m.type === "error") return this.finish(m.message);
    if (m.utterance !== this.number) return;
    if (m.type === "error") this.error(m);
    else if (m.type === "queued") this.begin(m.ahead ? `${m.ahead} ahead in the queue` : "next in the queue");
    else if (m.type === "ready") this.begin("");
    else if (m.type === "failed") this.why = m.message;
    else if (m.type === "trace") this.traced(m.trace_url);
  }

  packet(buffer) {
    const p = parsePacket(buffer);
    if (!p || p.utterance !== this.number || this.isOver) return;
    const received = p.first + p.pcm.length;
    const least = this.creditMs === null ? 0 : AHEAD_S * this.job.rateHz;
    if (received - this.reported < least) return;
    this.reported = received;
    this.send({ type: "played", sample: received, buffered_ms: 0, underruns: 0 });
  }

  // --- jobs -------------------------------------------------------------------------------------

  next() {
    this.number++;
    if (!this.job) return this.finish();
    return this.open();
  }

  open() {
    const { voice, seed, temperature, speed, options } = this.job;
    this.hasBegun = false;
    this.reported = 0;
    this.why = "";
    this.on.progress(this.number, "");
    const how = { voice, seed, temperature, speed, options };
    this.send({ type: "open", source: "stream", credit_ms: this.creditMs, ...how });
  }

  /** The utterance is open: send the whole text at once. */
  begin(waits) {
    this.on.progress(this.number, waits);
    if (this.hasBegun) return;
    this.hasBegun = true;
    this.send({ type: "text", text: this.source });
    this.send({ type: "end" });
  }

  error(m) {
    if (m.code === "busy" && !this.hasBegun) {
      this.on.progress(this.number, "the server is busy");
      this.timer = setTimeout(() => this.open(), m.retry_ms ?? RETRY_MS);
    } else if (m.code === "bad_message" && !this.hasBegun && this.creditMs !== null) {
      this.creditMs = null; // the server does not accept so much credit
      this.open();
    } else if (m.code === "closing" || m.code === "stuck") {
      this.finish(m.message);
    } else if (!this.hasBegun || m.code === "bad_file") {
      this.on.refused(m.message, this.job);
      this.next();
    } else {
      this.why = m.message;
    }
  }

  traced(url) {
    const token = TOKEN.exec(url)?.[1];
    if (token && !this.why) this.on.spoken(token, this.job);
    else this.on.refused(this.why || "no trace of it was stored", this.job);
    this.next();
  }

  /** Stop; closing the socket cancels the utterance. */
  stop() {
    this.finish("");
  }

  finish(message = null) {
    if (this.isOver) return;
    this.isOver = true;
    clearTimeout(this.timer);
    this.socket.close();
    this.on.done(message);
  }

  send(message) {
    this.socket.send({ ...message, utterance: this.number });
  }
}
