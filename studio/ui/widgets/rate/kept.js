// What this browser remembers of a sitting: the code, marks not yet sent, an answer not yet acknowledged.

export class Kept {
  /** `name` tells one person's sitting in one campaign from every other. */
  constructor(name) {
    this.prefix = `studio-rate|${name}|`;
    this.memory = new Map(); // where storage is forbidden or full, a reload forgets
  }

  get(key) {
    try {
      const text = localStorage.getItem(this.prefix + key);
      if (text !== null) return JSON.parse(text);
    } catch {
      // Forbidden, or not what was written: as if it were not there.
    }
    return this.memory.get(key) ?? null;
  }

  set(key, value) {
    this.memory.set(key, value);
    try {
      localStorage.setItem(this.prefix + key, JSON.stringify(value));
    } catch {
      // It is in memory.
    }
  }

  drop(key) {
    this.memory.delete(key);
    try {
      localStorage.removeItem(this.prefix + key);
    } catch {
      // It was never there.
    }
  }
}
