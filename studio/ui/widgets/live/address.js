// The text and the settings in the page's address; only values that differ from the defaults.

import { sharedAddress } from "../share/shared.js";

const WRITE_AFTER_MS = 400;
const LONGEST_TEXT = 2000; // characters; some mail and chat programs cut longer addresses

export class Address {
  constructor(read) {
    this.read = read; // returns {text, settings: Map of name to value}
    this.isTooLong = false;
  }

  get params() {
    return new URLSearchParams(location.search);
  }

  /** Schedule a write, once changes have stopped. */
  changed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.write(), WRITE_AFTER_MS);
  }

  write() {
    clearTimeout(this.timer);
    const { text, settings } = this.read();
    if (!settings) return; // before the voices are known
    const params = this.params;
    for (const name of [...(this.names ?? []), "text", ...settings.keys()]) params.delete(name);
    this.names = [...settings.keys()];
    this.isTooLong = text.length > LONGEST_TEXT;
    if (text && !this.isTooLong) params.set("text", text);
    for (const [name, value] of settings) if (value !== null) params.set(name, String(value));
    const query = params.toString();
    history.replaceState(history.state, "", query ? `?${query}` : location.pathname);
  }

  /** The address to share, without parameters of this page only; it plays the trace of a token, if there is one. */
  link(token) {
    this.write();
    const url = new URL(location.href);
    for (const name of ["tap", "stage", "key", "lang", "__theme"]) url.searchParams.delete(name);
    return sharedAddress(url.href, token);
  }
}
