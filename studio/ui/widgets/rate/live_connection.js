// The Worker with the socket of live screens, and the player; one per rater session.

import { Player } from "../sound/player.js";

export class LiveConnection {
  constructor(base, server, token) {
    const url = new URL("live", server);
    url.protocol = url.protocol.replace("http", "ws");
    this.on = null; // the current screen
    this.worker = new Worker(`${base}/rate/live.worker.js`, { type: "module" });
    this.worker.onmessage = ({ data }) => this.on?.[data.type]?.(data);
    this.player = new Player(base, {
      port: (port, rateHz) => this.worker.postMessage({ type: "port", port, rateHz }, [port]),
      message: (m) => m.type === "fault" && this.on?.refused(m),
    });
    this.post({ type: "start", url: url.href, token });
  }

  post(message) {
    this.worker.postMessage(message);
  }

  close() {
    this.worker.terminate();
    this.player.close();
  }
}
