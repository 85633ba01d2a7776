// Local storage of a rater session: the rater code, the draft of a screen, an unacknowledged answer.

export class RaterStorage {
  /** `name` identifies one rater session in one campaign. */
  constructor(name) {
    this.prefix = `studio-rate|${name}|`;
    this.fallback = new Map(); // where storage is blocked or full
  }

  get(key) {
    try {
      const text = localStorage.getItem(this.prefix + key);
      if (text !== null) return JSON.parse(text);
    } catch {
      // Blocked, or invalid JSON: use the memory.
    }
    return this.fallback.get(key) ?? null;
  }

  set(key, value) {
    this.fallback.set(key, value);
    try {
      localStorage.setItem(this.prefix + key, JSON.stringify(value));
    } catch {
      // Stored in memory only.
    }
  }

  drop(key) {
    this.fallback.delete(key);
    try {
      localStorage.removeItem(this.prefix + key);
    } catch {
      // Stored in memory only.
    }
  }
}
