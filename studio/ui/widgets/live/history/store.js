// Where the history is stored: the browser's database, or the memory of this visit if there is none.

import { evicted } from "./entries.js";

const NAME = "studio-history";
const [ENTRIES, SOUNDS] = ["entries", "sounds"]; // of an entry with the key `id`, the pieces of its sound have [id, 0], [id, 1], ...
const BOTH = [ENTRIES, SOUNDS];
const PIECE_BYTES = 50_000; // a browser reads larger values later, when the page may be gone

/** No two entries of a page have the same id, and later ones have a larger one. */
export const newId = () => performance.timeOrigin + performance.now();

const piecesOf = (id) => IDBKeyRange.bound([id], [id, Infinity]);

/** The store; it never fails to open. */
export async function openStore() {
  try {
    const opening = indexedDB.open(NAME, 1);
    opening.onupgradeneeded = () => {
      opening.result.createObjectStore(ENTRIES, { keyPath: "id", autoIncrement: true });
      opening.result.createObjectStore(SOUNDS);
    };
    const store = new BrowserStore(await result(opening));
    await store.evict().catch(() => {}); // drafts were added without it
    return store;
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

  /** Run `work(store of a name, transaction)` in one transaction; resolves to its value once that is complete. */
  async run(mode, work) {
    const transaction = this.database.transaction(BOTH, mode);
    const complete = new Promise((resolve, reject) => {
      transaction.oncomplete = resolve;
      transaction.onabort = () => reject(transaction.error);
    });
    const value = await Promise.all([work((name) => transaction.objectStore(name), transaction), complete]);
    return value[0];
  }

  /** The entries, oldest first. */
  list() {
    return this.run("readonly", (store) => result(store(ENTRIES).getAll()));
  }

  /** Add an entry and its WAV file, and remove the oldest ones beyond the limits. Resolves to its id. */
  async add(entry, wav) {
    const id = await this.addAtOnce(entry, wav);
    await this.evict();
    return id;
  }

  /** Remove the oldest entries beyond the limits. */
  evict() {
    return this.run("readwrite", async (store) => {
      for (const old of evicted(await result(store(ENTRIES).getAll()))) {
        for (const name of BOTH) store(name).delete(old);
        store(SOUNDS).delete(piecesOf(old));
      }
    });
  }

  /** Add an entry and its WAV file, or replace that with its id. All is sent before this returns: the page may be left. */
  addAtOnce(entry, wav) {
    const { id = newId() } = entry;
    return this.run("readwrite", (store, transaction) => {
      store(ENTRIES).put({ ...entry, id });
      for (let k = 0; k * PIECE_BYTES < wav.byteLength; k++)
        store(SOUNDS).put(wav.slice(k * PIECE_BYTES, (k + 1) * PIECE_BYTES), [id, k]);
      transaction.commit();
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
  async sound(id) {
    const [whole, pieces] = await this.run("readonly", (store) =>
      Promise.all([result(store(SOUNDS).get(id)), result(store(SOUNDS).getAll(piecesOf(id)))]),
    );
    return pieces.length ? new Blob(pieces).arrayBuffer() : whole; // entries of earlier versions have a whole sound
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

  /** Nothing lasts here beyond the page. */
  async addAtOnce() {}

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
