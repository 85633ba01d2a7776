// A word is spoken when a space follows it. After a pause in typing, the hint below the field says so.

const AFTER_MS = 1500; // without typing

export class LastWordHint {
  /**
   * @param root of the page; has data-last-word while the hint is shown
   * @param isOpen whether typed text is being spoken, and can go on
   */
  constructor(root, isOpen) {
    this.root = root;
    this.field = root.querySelector("#live-text");
    this.isOpen = isOpen;
    this.field.addEventListener("input", () => this.typed());
  }

  typed() {
    clearTimeout(this.timer);
    this.show(false);
    this.timer = setTimeout(() => this.show(this.isOpen() && /[^\s.!?]$/.test(this.field.value)), AFTER_MS);
  }

  /** The text has ended: nothing waits for a space. */
  clear() {
    clearTimeout(this.timer);
    this.show(false);
  }

  show(isShown) {
    if (isShown) this.root.dataset.lastWord = "";
    else delete this.root.dataset.lastWord;
  }
}
