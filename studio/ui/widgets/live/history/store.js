// Where the history is stored: the browser's database, or the memory of this visit if there is none.

import { evicted } from "./entries.js";

const NAME = "studio-history";
const [ENTRIES, SOUNDS] = ["entries", "sounds"]; // an entry and its sound have the same key
const BOTH = [ENTRIES, SOUNDS];

/** The store; it never fails to open. */
export async function openStore() {
  try {
    const opening = indexedDB.open(NAME, 1);
    opening.onupgradeneeded = () => {
      opening.result.createObjectStore(ENTRIES, { keyPath: "id", autoIncrement: true });
      opening.result.createObjectStore(SOUNDS);
    };
    return new BrowserStore(await result(opening));
  } catch {
    return new MemoryStore();
  }
}

/** The result of a request to the database. */
function result(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/** All methods except list() and sound() reject if the browser's storage is full. */
class BrowserStore {
  isLasting = true;

  constructor(database) {
    this.database = database;
    database.onversionchange = () => database.close(); // the user deletes the site's data
  }

  /** Run `work(store of a name)` in one transaction; resolves to its value once that is complete. */
  async run(mode, work) {
    const transaction = this.database.transaction(BOTH, mode);
    const complete = new Promise((resolve, reject) => {
      transaction.oncomplete = resolve;
      transaction.onabort = () => reject(transaction.error);
    });
    const value = await Promise.all([work((name) => transaction.objectStore(name)), complete]);
    return value[0];
  }

  /** The entries, oldest first. */
  list() {
    return this.run("readonly", (store) => result(store(ENTRIES).getAll()));
  }

  /** Add an entry and its WAV file, and remove the oldest ones beyond the limits. Resolves to its id. */
  add(entry, wav) {
    return this.run("readwrite", async (store) => {
      const id = await result(store(ENTRIES).add(entry));
      store(SOUNDS).put(wav, id);
      for (const old of evicted(await result(store(ENTRIES).getAll())))
        for (const name of BOTH) store(name).delete(old);
      return id;
    });
  }

  /** Store a changed entry, unless it was removed meanwhile. */
  update(entry) {
    return this.run("readwrite", async (store) => {
      if (await result(store(ENTRIES).getKey(entry.id))) store(ENTRIES).put(entry);
    });
  }

  /** The WAV file of an entry; undefined if it was removed. */
  sound(id) {
    return this.run("readonly", (store) => result(store(SOUNDS).get(id)));
  }

  clear() {
    return this.run("readwrite", (store) => BOTH.map((name) => store(name).clear()));
  }
}

export class MemoryStore {
  isLasting = false;

  constructor() {
    this.entries = [];
    this.sounds = new Map();
    this.nextId = -1; // ids differ from those of the database
  }

  async list() {
    return [...this.entries];
  }

  async add(entry, wav) {
    const id = this.nextId--;
    this.entries.push({ ...entry, id });
    this.sounds.set(id, wav);
    for (const old of evicted(this.entries)) {
      this.entries = this.entries.filter((one) => one.id !== old);
      this.sounds.delete(old);
    }
    return id;
  }

  async update(entry) {
    this.entries = this.entries.map((one) => (one.id === entry.id ? entry : one));
  }

  async sound(id) {
    return this.sounds.get(id);
  }

  async clear() {
    this.entries = [];
    this.sounds.clear();
  }
}
