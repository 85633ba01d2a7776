// A WebSocket that comes back by itself.

const FIRST_RETRY_MS = 400;
const LONGEST_RETRY_MS = 5000;

export class Socket {
  /** `on` has text(object), packet(ArrayBuffer), state("connecting" | "open" | "lost", retry_ms). */
  constructor(url, on) {
    this.url = url;
    this.on = on;
    this.retryMs = FIRST_RETRY_MS;
    this.connect();
  }

  connect() {
    clearTimeout(this.timer);
    const socket = (this.socket = new WebSocket(this.url));
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }) => {
      if (typeof data === "string") this.on.text(JSON.parse(data));
      else this.on.packet(data);
    };
    socket.onopen = () => {
      this.retryMs = FIRST_RETRY_MS;
      this.on.state("open");
    };
    socket.onclose = () => {
      if (socket !== this.socket) return;
      this.on.state("lost", this.retryMs);
      this.timer = setTimeout(() => this.connect(), this.retryMs);
      this.retryMs = Math.min(LONGEST_RETRY_MS, this.retryMs * 1.7);
    };
  }

  get isOpen() {
    return this.socket.readyState === WebSocket.OPEN;
  }

  send(message) {
    if (this.isOpen) this.socket.send(JSON.stringify(message));
    return this.isOpen;
  }
}
