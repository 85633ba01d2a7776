// WAV, Save and Inspect from the first sound on: a click finishes the text, and follows the link once there is one.

export class EarlyLinks {
  /** `finish()` finishes the text. */
  constructor(root, finish) {
    this.root = root;
    this.buttons = [...root.querySelectorAll("[data-early]")];
    this.wanted = null; // the link to follow
    for (const button of this.buttons) {
      button.addEventListener("click", () => {
        this.wanted = button.dataset.early;
        for (const other of this.buttons) other.disabled = true;
        finish();
      });
    }
  }

  link(name) {
    return this.root.querySelector(`[data-get="${name}"]`);
  }

  /** The first sound is played: offer what there will be. */
  offer() {
    const hasLibrary = document.querySelector('.masthead a[href$="/library"]') !== null;
    for (const button of this.buttons) {
      const name = button.dataset.early;
      button.hidden = !this.link(name).hidden || (name === "keep" && !hasLibrary);
    }
  }

  /** The utterance has links, or there is none (any more). */
  settle(hasLinks) {
    for (const button of this.buttons) Object.assign(button, { hidden: true, disabled: false });
    const { wanted } = this;
    this.wanted = null;
    if (hasLinks && wanted) this.link(wanted).click();
  }
}
