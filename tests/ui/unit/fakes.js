// Stand-ins for browser objects.

/** Timers that only run by `t.mock.timers.tick()`. */
export const mockTimers = (t) => t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });

/** A WebSocket without a network: the test plays the server through `receive`, `accept` and `drop`. */
export class FakeSocket {
  static OPEN = 1;
  /** @type {FakeSocket[]} */
  static all = [];

  constructor(url) {
    this.url = url;
    this.readyState = 0;
    this.sent = [];
    this.isClosed = false;
    this.onopen = this.onclose = this.onmessage = null;
    FakeSocket.all.push(this);
  }

  static get last() {
    return FakeSocket.all.at(-1);
  }

  accept() {
    this.readyState = FakeSocket.OPEN;
    this.onopen();
  }

  receive(message) {
    this.onmessage({ data: message instanceof ArrayBuffer ? message : JSON.stringify(message) });
  }

  drop(code = 1006) {
    this.readyState = 3;
    this.onclose({ code });
  }

  send(text) {
    this.sent.push(JSON.parse(text));
  }

  close() {
    this.isClosed = true;
  }
}

/** Replace global WebSocket for one test, with mocked timers. */
export function fakeSockets(t) {
  const before = globalThis.WebSocket;
  FakeSocket.all.length = 0;
  // @ts-expect-error: not a whole WebSocket
  globalThis.WebSocket = FakeSocket;
  t.after(() => {
    globalThis.WebSocket = before;
  });
  mockTimers(t);
  return FakeSocket;
}

/** A binary packet as the server sends it. */
export function packet({ utterance = 1, take = 0, seq = 0, first = 0, samples = [0], version = 1, kind = 1 }) {
  const buffer = new ArrayBuffer(24 + 2 * samples.length);
  const view = new DataView(buffer);
  view.setUint8(0, version);
  view.setUint8(1, kind);
  view.setUint32(4, utterance, true);
  view.setUint32(8, take, true);
  view.setUint32(12, seq, true);
  view.setBigUint64(16, BigInt(first), true);
  new Int16Array(buffer, 24).set(samples);
  return buffer;
}

/** A text field with listeners, for keyboard tests. */
export class FakeField {
  constructor() {
    this.value = "";
    this.scrollTop = this.scrollHeight = 0;
    this.listeners = {};
  }

  addEventListener(type, listener) {
    this.listeners[type] ??= [];
    this.listeners[type].push(listener);
  }

  ownerDocument = { activeElement: null, execCommand: () => false };

  select() {}
  setSelectionRange() {}

  emit(type, event = {}) {
    for (const listener of this.listeners[type] ?? []) listener({ timeStamp: 0, preventDefault() {}, ...event });
  }

  /** One key press that changes the text. */
  press(key, value, timeStamp) {
    this.emit("keydown", { key, timeStamp });
    this.value = value;
    this.emit("input", { timeStamp: timeStamp + 8, isComposing: false });
    this.emit("keyup", { key, timeStamp: timeStamp + 50 });
  }
}

/** A 2D context that records texts, with letters of 7 pixels. */
export function fakePaint() {
  const texts = [];
  const paint = {
    texts,
    font: "",
    measureText: (text) => ({ width: 7 * text.length }),
    fillText: (text, x, y) => text && texts.push({ text, x, y }),
  };
  return new Proxy(paint, {
    get: (target, name) => target[name] ?? (() => {}),
    set: (target, name, value) => {
      target[name] = value;
      return true;
    },
  });
}
