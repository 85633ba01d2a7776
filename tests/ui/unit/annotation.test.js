// The annotation document with undo and versions, and its autosave.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Document, freshId } from "../../../studio/ui/widgets/inspect/annotate/document.js";
import { Saver } from "../../../studio/ui/widgets/inspect/annotate/saver.js";
import { mockTimers } from "./fakes.js";

const DATA = {
  annotator: "Ann",
  samples: 9000,
  is_done: false,
  layers: [
    {
      id: "l1",
      name: "faults",
      kind: "regions",
      labels: ["click"],
      version: 3,
      marks: [
        ["m2", 7, 500, 600, "click", ""],
        ["m1", 5, 100, 200, "click", "loud"],
      ],
    },
  ],
};

function open() {
  const changes = [];
  const document = new Document(structuredClone(DATA), (touched, list) => changes.push([[...touched], list]));
  return { document, changes };
}

const marks = (document, layer = "l1") =>
  document.sorted(document.layers.get(layer)).map(({ id, start }) => [id, start]);
const MARK = { id: "m3", start: 300, end: 310, label: "click", note: "" };

test("ids are random and unique", () => {
  const ids = new Set(Array.from({ length: 100 }, freshId));
  assert.equal(ids.size, 100);
  for (const id of ids) assert.match(id, /^[0-9a-f]{16}$/);
});

test("marks are sorted by time", () => {
  const { document } = open();
  assert.deepEqual(marks(document), [
    ["m1", 100],
    ["m2", 500],
  ]);
  assert.equal(document.marks, 2);
});

for (const [name, act] of /** @type {[string, (document: Document) => void][]} */ ([
  ["adding a mark", (document) => document.putMark("l1", MARK)],
  ["moving a mark", (document) => document.putMark("l1", { ...MARK, id: "m1" })],
  ["removing a mark", (document) => document.dropMark("l1", "m1")],
  ["adding a layer", (document) => document.putLayer({ id: "l2", name: "tones", kind: "points", labels: [] })],
  ["renaming a layer", (document) => document.putLayer({ id: "l1", name: "new", kind: "regions", labels: ["a"] })],
  ["removing a layer with its marks", (document) => document.dropLayer("l1")],
  ["finishing", (document) => document.finish(true)],
])) {
  test(`${name} can be undone and redone`, () => {
    const { document } = open();
    const state = () => structuredClone([document.layers, document.isDone]);
    const before = state();
    act(document);
    const after = state();
    assert.notDeepEqual(after, before);
    assert.ok(document.undo());
    assert.deepEqual(state(), before);
    assert.ok(document.redo());
    assert.deepEqual(state(), after);
    assert.equal(document.redo(), false);
  });
}

test("a new change clears the redo list", () => {
  const { document } = open();
  document.dropMark("l1", "m1");
  document.undo();
  document.putMark("l1", MARK);
  assert.equal(document.redo(), false);
});

test("a change is sent with the version it is based on", () => {
  const { document } = open();
  const was = (change) => document.withVersion(change).was;
  assert.equal(was({ op: "put_mark", layer: "l1", mark: "m1" }), 5);
  assert.equal(was({ op: "put_mark", layer: "l1", mark: "new" }), 0);
  assert.equal(was({ op: "put_layer", layer: "l1" }), 3);
  assert.equal(was({ op: "drop_layer", layer: "l1" }), 7, "of the layer and its marks the newest");
  document.acknowledged(
    [
      { op: "put_mark", layer: "l1", mark: "m1" },
      { op: "drop_mark", layer: "l1", mark: "m2" },
    ],
    9,
  );
  assert.deepEqual(
    [was({ op: "put_mark", layer: "l1", mark: "m1" }), was({ op: "put_mark", layer: "l1", mark: "m2" })],
    [9, 0],
  );
});

test("unsaved changes either apply, are there already, or conflict", () => {
  const { document } = open();
  const put = (mark, more) => ({ op: "put_mark", layer: "l1", mark, start: 1, end: 2, label: "", note: "", ...more });
  const fits = put("m1", { was: 5 });
  const same = put("m2", { start: 500, end: 600, label: "click", was: 1 });
  const stale = put("m2", { was: 6 });
  const again = put("m2", { start: 9, was: 7 });
  const lost = { ...put("x", { was: 0 }), layer: "gone" };
  const layer = { op: "put_layer", layer: "l9", name: "n", kind: "points", labels: [], was: 0 };
  const inside = { ...put("y", { was: 0 }), layer: "l9" };
  const { fitting, conflicting } = document.divide([same, fits, stale, again, lost, layer, inside]);
  assert.deepEqual(fitting, [fits, layer, inside]);
  assert.deepEqual(conflicting, [stale, again, lost]);
});

function saver(t, answers) {
  mockTimers(t);
  const stored = new Map();
  const before = globalThis.localStorage;
  Object.defineProperty(globalThis, "localStorage", {
    configurable: true,
    value: {
      getItem: (key) => stored.get(key) ?? null,
      setItem: (key, value) => stored.set(key, value),
      removeItem: (key) => stored.delete(key),
    },
  });
  t.after(() => Object.defineProperty(globalThis, "localStorage", { configurable: true, value: before }));
  const { document } = open();
  const sent = [];
  const states = [];
  const conflicts = [];
  const send = async (edit) => {
    sent.push(edit);
    const answer = answers.shift() ?? { revision: 100 + sent.length };
    if (answer.status) throw Object.assign(new Error("no"), answer);
    return answer;
  };
  const one = new Saver(
    document,
    send,
    (state) => states.push(state),
    (error) => conflicts.push(error.status),
    "key",
  );
  const tick = async (ms) => {
    t.mock.timers.tick(ms);
    for (let k = 0; k < 5; k++) await Promise.resolve();
  };
  return { saver: one, document, sent, states, conflicts, stored, tick };
}

const change = (mark, start) => ({ op: "put_mark", layer: "l1", mark, start, end: start + 1, label: "", note: "" });

test("changes are batched, sent with versions, and kept in the browser until they are saved", async (t) => {
  const { saver: one, sent, states, stored, tick } = saver(t, []);
  one.add([change("m1", 1)]);
  one.add([change("m2", 2)]);
  assert.equal(JSON.parse(stored.get("key")).length, 2);
  await tick(250);
  assert.deepEqual(
    sent[0].changes.map(({ mark, was }) => [mark, was]),
    [
      ["m1", 5],
      ["m2", 7],
    ],
  );
  assert.deepEqual([states.at(-1), stored.has("key"), one.isSaved], ["saved", false, true]);
});

test("a second change of a mark waits for the new version of the first", async (t) => {
  const { saver: one, sent, tick } = saver(t, []);
  one.add([change("m1", 1), change("m1", 2)]);
  await tick(250);
  assert.equal(sent[0].changes.length, 1);
  await tick(0);
  assert.deepEqual(
    sent[1].changes.map(({ start, was }) => [start, was]),
    [[2, 101]],
  );
});

test("temporary failures are retried with the same edit id, after 1, 2 and 5 s", async (t) => {
  const temporary = { status: 503, isTemporary: true };
  const { saver: one, sent, states, tick } = saver(t, [temporary, { status: 404 }, temporary]);
  one.add([change("m1", 1)]);
  await tick(250);
  for (const [k, ms] of [1000, 2000, 5000].entries()) {
    assert.equal(states.at(-1), "waiting");
    await tick(ms - 1);
    assert.equal(sent.length, k + 1);
    await tick(1);
    assert.equal(sent.length, k + 2);
  }
  assert.equal(new Set(sent.map(({ edit }) => edit)).size, 1);
  assert.equal(states.at(-1), "saved");
});

test("a refusal stops sending until retry()", async (t) => {
  const { saver: one, sent, states, tick } = saver(t, [{ status: 422 }]);
  one.add([change("m1", 1)]);
  await tick(250);
  one.add([change("m2", 2)]);
  await tick(60_000);
  assert.deepEqual([sent.length, states.at(-1)], [1, "refused"]);
  one.retry();
  await tick(0);
  assert.equal(sent.length, 2);
});

test("a conflict with another window is reported", async (t) => {
  const { saver: one, conflicts, tick } = saver(t, [{ status: 409 }]);
  one.add([change("m1", 1)]);
  await tick(250);
  assert.deepEqual(conflicts, [409]);
});

test("closing sends pending changes at once and reports no state", async (t) => {
  const { saver: one, sent, states, tick } = saver(t, []);
  one.add([change("m1", 1)]);
  one.close();
  await tick(0);
  assert.deepEqual([sent.length, states], [1, ["saving"]]);
});
