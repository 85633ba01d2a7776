// A WebSocket that reconnects.

const FIRST_RETRY_MS = 400;
const LONGEST_RETRY_MS = 5000;
const IDLE = 4000; // the server's close code for an idle socket

export class Socket {
  /**
   * `on`: text(object), packet(ArrayBuffer), state("open" | "lost", retry_ms), isBusy(), and optionally requeue().
   * After the server closes an idle socket, it stays closed without a state change until wake(). If a message was in
   * flight at that moment, requeue() returns whether it waits for the next "open"; the socket then reconnects at once.
   */
  constructor(url, on) {
    this.url = url;
    this.on = on;
    this.retryMs = FIRST_RETRY_MS;
    this.connect();
  }

  connect() {
    this.isAsleep = false;
    clearTimeout(this.timer);
    const socket = new WebSocket(this.url);
    this.socket = socket;
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }) => {
      if (socket !== this.socket) return;
      if (typeof data === "string") this.on.text(JSON.parse(data));
      else this.on.packet(data);
    };
    socket.onopen = () => {
      this.retryMs = FIRST_RETRY_MS;
      this.on.state("open");
    };
    socket.onclose = ({ code }) => {
      if (socket !== this.socket) return;
      this.isAsleep = code === IDLE && !this.on.isBusy();
      if (this.isAsleep) return;
      if (code === IDLE && this.on.requeue?.()) return void this.connect();
      this.on.state("lost", this.retryMs);
      if (socket !== this.socket) return; // the callback closed it
      this.timer = setTimeout(() => this.connect(), this.retryMs);
      this.retryMs = Math.min(LONGEST_RETRY_MS, this.retryMs * 1.7);
    };
  }

  /** Close for good, without a state change. */
  close() {
    clearTimeout(this.timer);
    const { socket } = this;
    this.socket = null;
    socket.close();
  }

  get isOpen() {
    return this.socket?.readyState === WebSocket.OPEN;
  }

  /** Reconnect after an idle close; reports "open". */
  wake() {
    if (this.isAsleep) this.connect();
  }

  send(message) {
    if (this.isOpen) this.socket.send(JSON.stringify(message));
    return this.isOpen;
  }
}
