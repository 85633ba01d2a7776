// A WebSocket that comes back by itself.

const FIRST_RETRY_MS = 400;
const LONGEST_RETRY_MS = 5000;
const IDLE = 4000; // the server's close code for a socket on which nothing was spoken for long

export class Socket {
  /**
   * `on` has text(object), packet(ArrayBuffer), state("open" | "lost", retry_ms), isBusy(), and may have takesBack(). A socket
   * that the server closed because it was idle stays closed, and nobody is told, until wake() is called. Where something was on
   * its way to it at that moment, takesBack() tells whether that waits for the next "open"; then there is one at once.
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
    const socket = (this.socket = new WebSocket(this.url));
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
      if (code === IDLE && this.on.takesBack?.()) return void this.connect();
      this.on.state("lost", this.retryMs);
      if (socket !== this.socket) return; // that was news enough to close it for good
      this.timer = setTimeout(() => this.connect(), this.retryMs);
      this.retryMs = Math.min(LONGEST_RETRY_MS, this.retryMs * 1.7);
    };
  }

  /** For good: nobody is told. */
  close() {
    clearTimeout(this.timer);
    const { socket } = this;
    this.socket = { readyState: WebSocket.CLOSED };
    socket.close();
  }

  get isOpen() {
    return this.socket.readyState === WebSocket.OPEN;
  }

  /** Connect again where the socket was closed because it was idle; says "open" when it is. */
  wake() {
    if (this.isAsleep) this.connect();
  }

  send(message) {
    if (this.isOpen) this.socket.send(JSON.stringify(message));
    return this.isOpen;
  }
}
