// The page's state in its address: text, voice, speaker, seed and what else was set; only what differs from the defaults.

const WRITE_AFTER_MS = 400;
const LONGEST_TEXT = 2000; // characters: longer addresses are cut by some on their way

export class Address {
  constructor(read) {
    this.read = read; // what there is to keep: {text, settings: Map of name and value}
    this.isTooLong = false;
  }

  get params() {
    return new URLSearchParams(location.search);
  }

  /** The address is written when nothing has changed for a moment. */
  changed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.write(), WRITE_AFTER_MS);
  }

  write() {
    clearTimeout(this.timer);
    const { text, settings } = this.read();
    if (!settings) return; // the voices are not known yet
    const params = this.params;
    for (const name of [...this.kept ?? [], "text", ...settings.keys()]) params.delete(name);
    this.kept = [...settings.keys()];
    this.isTooLong = text.length > LONGEST_TEXT;
    if (text && !this.isTooLong) params.set("text", text);
    for (const [name, value] of settings) if (value !== null) params.set(name, String(value));
    const query = params.toString();
    history.replaceState(history.state, "", query ? `?${query}` : location.pathname);
  }

  /** The address to give to others: without what only this page wants. */
  get link() {
    this.write();
    const url = new URL(location.href);
    for (const name of ["tap", "stage", "key", "__theme"]) url.searchParams.delete(name);
    return url.href;
  }
}
