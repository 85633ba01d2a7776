// A client for other pages and programs: text goes in piece by piece, events and sound come out (docs/protocol.md).

import { parsePacket } from "./packet.js";

const NUMBER = 1; // of the utterance: each has a socket of its own
const REPORT_SAMPLES = 1200; // 50 ms at 24 kHz

/** The server refused a message; `code` is its code, such as "bad_option", "busy" or "too_late". */
export class Refused extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** The address of a studio's socket; browsers send the key in it. */
export function socketUrl(address, key = "") {
  const url = new URL("ws/speak", address.endsWith("/") ? address : `${address}/`);
  url.protocol = url.protocol.replace("http", "ws");
  if (key) url.searchParams.set("key", key);
  return url.href;
}

/**
 * One utterance. Iterating over it yields the events of the protocol, and sound as {type: "audio", sample, pcm}, pcm an
 * Int16Array; the last event is "ended" or "failed". A refusal is thrown as `Refused`, after which it may go on.
 */
export class Utterance {
  /**
   * @param url address of the socket
   * @param settings fields of "open" (voice, seed, temperature, options, source, markup, speed); `plays`: the caller calls played()
   * @param Socket the class of the socket, where there is no global WebSocket
   */
  constructor(url, { plays = false, ...settings } = {}, Socket = globalThis.WebSocket) {
    this.plays = plays;
    this.waiting = [{ type: "open", ...settings }]; // until the socket is open
    this.items = []; // events and errors that were not read yet
    this.take = this.reported = 0;
    this.traceUrl = this.wavUrl = ""; // relative to the server's root, at the end
    this.isOver = false;
    this.socket = new Socket(url);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => {
      for (const message of this.waiting.splice(0)) this.post(message);
    };
    this.socket.onmessage = ({ data }) => (typeof data === "string" ? this.text(JSON.parse(data)) : this.packet(data));
    this.socket.onclose = () => this.lost();
    this.socket.onerror = () => this.lost(); // not every implementation closes what it could not open
  }

  post(message) {
    if (this.socket.readyState === 0) this.waiting.push(message);
    else if (this.socket.readyState === 1) this.socket.send(JSON.stringify({ utterance: NUMBER, ...message }));
  }

  /** Append text. */
  send(text) {
    this.post({ type: "text", text });
  }

  /** Replace the text as sent from code point `at` on. */
  revise(at, text = "") {
    this.post({ type: "revise", at, text });
  }

  /** Change a text field, where the source is "keyboard"; positions in code points. */
  edit(at, remove = 0, insert = "") {
    this.post({ type: "edit", at, remove, insert });
  }

  /** Speak every committed word without waiting for more text. */
  flush() {
    this.post({ type: "flush" });
  }

  /** No more text will come. */
  end() {
    this.post({ type: "end" });
  }

  /** `sample` is the first one not yet played. */
  played(sample, more = {}) {
    this.post({ type: "played", sample, ...more });
  }

  /** Stop; "cancelled" says which words were heard. */
  cancel(playedSample = 0) {
    this.post({ type: "cancel", played_sample: playedSample });
  }

  close() {
    this.isOver = true;
    this.socket.close();
    this.wake?.();
  }

  text(event) {
    if (event.type === "hello" || event.type === "audio") return;
    if (event.type === "trace" || (event.type === "error" && this.last)) {
      this.traceUrl = event.trace_url ?? "";
      this.wavUrl = event.wav_url ?? "";
      return void this.close();
    }
    if (event.type === "revised") this.take = event.take;
    if (event.type === "ended" || event.type === "failed") this.last = event;
    this.items.push(event.type === "error" ? new Refused(event.code, event.message) : event);
    this.wake?.();
  }

  packet(buffer) {
    const audio = parsePacket(buffer);
    if (!audio || audio.take < this.take) return; // it was taken back
    this.items.push({ type: "audio", sample: audio.first, pcm: audio.pcm });
    const received = audio.first + audio.pcm.length;
    if (!this.plays && received - this.reported >= REPORT_SAMPLES) {
      this.reported = received;
      this.played(received);
    }
    this.wake?.();
  }

  lost() {
    if (this.isOver) return;
    if (!this.last) this.items.push(new Error("the server cannot be reached, or closed the connection"));
    this.isOver = true;
    this.wake?.();
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  async next() {
    while (!this.items.length) {
      if (this.isOver) return { done: true, value: undefined };
      /** @type {Promise<void>} */
      const more = new Promise((resolve) => {
        this.wake = resolve;
      });
      await more;
    }
    const item = this.items.shift();
    if (item instanceof Error) throw item;
    return { done: false, value: item };
  }

  async return() {
    this.close();
    return { done: true, value: undefined };
  }
}

export class Client {
  /** `address`: of the studio, "http://127.0.0.1:7860"; `Socket`: where there is no global WebSocket. */
  constructor(address, { key = "", Socket = globalThis.WebSocket } = {}) {
    this.url = socketUrl(address, key);
    this.Socket = Socket;
  }

  utterance(settings = {}) {
    return new Utterance(this.url, settings, this.Socket);
  }

  /** Speak a text, or pieces of one as they come (an iterable, also an asynchronous one), and yield the events. */
  async *speak(text, settings = {}) {
    const utterance = this.utterance(settings);
    /** @type {any} */
    let wrong = null;
    const feed = async () => {
      for await (const piece of typeof text === "string" ? [text] : text) utterance.send(piece);
      utterance.end();
    };
    feed().catch((error) => {
      wrong = error;
      utterance.cancel();
    });
    try {
      yield* utterance;
      if (wrong) throw wrong;
    } finally {
      utterance.close();
    }
  }
}
