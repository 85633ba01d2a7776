// What the sections of the Library page share: a line for messages, where errors of the user's actions are shown.

import { h, showStatus } from "../rate/dom.js";

export class Section {
  constructor() {
    this.notice = h("p", { class: "owner-notice", role: "status", hidden: true });
  }

  showMessage(text = "", level = "error") {
    showStatus(this.notice, text, level);
  }

  async tried(work) {
    try {
      await work();
    } catch (error) {
      this.showMessage(error.message);
    }
  }
}
