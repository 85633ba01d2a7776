// Types a text into the field, a key at a time, until the user types.

import { keystrokes } from "../../wire/timed_text.js";

export class Typist {
  /** `editor` of the field; `on`: done(). */
  constructor(editor, on) {
    this.editor = editor;
    this.on = on;
    this.timer = null;
    for (const type of ["beforeinput", "paste", "drop"])
      editor.field.addEventListener(type, (e) => e.isTrusted && this.stop());
  }

  get isTyping() {
    return this.timer !== null;
  }

  start(text, wpm) {
    this.stop();
    const keys = keystrokes(text, wpm);
    const began = performance.now();
    let next = 0;
    const step = () => {
      const elapsed = performance.now() - began;
      while (next < keys.length && keys[next].tMs <= elapsed) this.editor.append(keys[next++].text);
      this.timer = next < keys.length ? setTimeout(step, Math.max(4, keys[next].tMs - elapsed)) : null;
      if (!this.timer) this.on.done();
    };
    this.timer = setTimeout(step, 0);
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = null;
  }
}
