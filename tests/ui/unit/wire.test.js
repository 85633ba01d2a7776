import assert from "node:assert/strict";
import { test } from "node:test";
import { difference, Editor } from "../../../studio/ui/widgets/wire/editor.js";
import { parsePacket } from "../../../studio/ui/widgets/wire/packet.js";
import { Socket } from "../../../studio/ui/widgets/wire/socket.js";
import {
  keystrokes,
  sentenceArrivals,
  sentences,
  TimedText,
  tokenArrivals,
  tokens,
} from "../../../studio/ui/widgets/wire/timed_text.js";
import { FakeField, fakeSockets, packet } from "./fakes.js";

for (const [before, after, at, remove, insert] of /** @type {[string, string, number, number, string][]} */ ([
  ["", "a", 0, 0, "a"],
  ["one two", "one 2 two", 4, 0, "2 "],
  ["teh cat", "the cat", 1, 2, "he"],
  ["aaa", "aa", 2, 1, ""],
  ["😀x", "😀xy", 2, 0, "y"],
  ["😀", "😁", 0, 1, "😁"],
  ["a😀b", "a🚀b", 1, 1, "🚀"],
  ["🏴 b", "b", 0, 2, ""],
  ["😀😀", "😀", 1, 1, ""],
  ["abc", "", 0, 3, ""],
])) {
  test(`difference of ${JSON.stringify(before)} and ${JSON.stringify(after)} in code points`, () => {
    assert.deepEqual(difference(before, after), { at, remove, insert });
  });
}

test("an unchanged text has no difference", () => assert.equal(difference("x", "x"), null));

function editor() {
  const field = new FakeField();
  const edits = [];
  const finished = [];
  const adopted = [];
  const on = {
    edit: (change) => edits.push(change),
    finish: () => finished.push(true),
    adopt: (text) => adopted.push(text),
  };
  return { field, edits, finished, adopted, editor: new Editor(field, on) };
}

test("an edit has the time of its key press, not of the input event", () => {
  const { field, edits } = editor();
  field.press("a", "a", 1000);
  assert.equal(edits.length, 1);
  assert.equal(edits[0].tMs, performance.timeOrigin + 1000);
});

test("an input event long after a key press has its own time", () => {
  const { field, edits } = editor();
  field.emit("keydown", { key: "Shift", timeStamp: 1000 });
  field.value = "dictated";
  field.emit("input", { timeStamp: 9000, isComposing: false });
  assert.equal(edits[0].tMs, performance.timeOrigin + 9000);
});

test("a composition is sent when it ends", () => {
  const { field, edits } = editor();
  for (const value of ["n", "ni", "nih"]) {
    field.value = value;
    field.emit("input", { timeStamp: 10, isComposing: true });
  }
  assert.deepEqual(edits, []);
  field.value = "你";
  field.emit("compositionend", { timeStamp: 20 });
  assert.deepEqual(
    edits.map(({ at, remove, insert }) => [at, remove, insert]),
    [[0, 0, "你"]],
  );
});

for (const modifier of ["ctrlKey", "metaKey"]) {
  test(`${modifier} and Enter finish; Enter alone does not`, () => {
    const { field, finished } = editor();
    field.emit("keydown", { key: "Enter" });
    assert.equal(finished.length, 0);
    field.emit("keydown", { key: "Enter", [modifier]: true });
    assert.equal(finished.length, 1);
  });
}

test("show() and reset() report no edit; set(), append() and resend() do", () => {
  const { editor: one, edits } = editor();
  one.show("known");
  one.reset();
  assert.deepEqual(edits, []);
  one.set("a");
  one.append("b");
  one.resend();
  assert.deepEqual(
    edits.map(({ at, remove, insert }) => [at, remove, insert]),
    [
      [0, 0, "a"],
      [1, 0, "b"],
      [0, 0, "ab"],
    ],
  );
});

test("the browser's undo of reset() brings the text back without an edit; undo of anything else is one", () => {
  const { editor: one, field, edits, adopted } = editor();
  const undo = (value) => {
    field.value = value;
    field.emit("input", { timeStamp: 1, isComposing: false, inputType: "historyUndo" });
  };
  one.show("a cat");
  one.reset();
  assert.deepEqual([field.value, one.cleared], ["", "a cat"]);
  undo("a cat");
  assert.deepEqual([adopted, edits, one.cleared, one.sent], [["a cat"], [], "", "a cat"]);
  one.reset();
  undo("a ca");
  assert.deepEqual([adopted.length, edits.length, one.cleared], [1, 1, ""]);
});

test("a packet has its header and samples", () => {
  const p = parsePacket(packet({ utterance: 7, take: 2, seq: 9, first: 2 ** 33, samples: [1, -2, 3] }));
  assert.deepEqual([p.utterance, p.take, p.seq, p.first], [7, 2, 9, 2 ** 33]);
  assert.deepEqual(Array.from(p.pcm), [1, -2, 3]);
});

test("packets of another version or kind, or too short, are ignored", () => {
  assert.equal(parsePacket(packet({ version: 2 })), null);
  assert.equal(parsePacket(packet({ kind: 3 })), null);
  assert.equal(parsePacket(new ArrayBuffer(23)), null);
});

function socket(t, { isBusy = false, requeue = undefined } = {}) {
  const Fake = fakeSockets(t);
  const states = [];
  const on = { text() {}, packet() {}, isBusy: () => isBusy, requeue, state: (...state) => states.push(state) };
  return { Fake, states, socket: new Socket("ws://x", on) };
}

test("a lost socket reconnects with growing delays, reset by a connection", (t) => {
  const { Fake, states } = socket(t);
  Fake.last.accept();
  Fake.last.drop();
  t.mock.timers.tick(400);
  Fake.last.drop();
  t.mock.timers.tick(679);
  assert.equal(Fake.all.length, 2);
  t.mock.timers.tick(1);
  assert.equal(Fake.all.length, 3);
  Fake.last.accept();
  Fake.last.drop();
  assert.deepEqual(states, [["open"], ["lost", 400], ["lost", 680], ["open"], ["lost", 400]]);
});

test("the delay is at most 5 s", (t) => {
  const { Fake, states } = socket(t);
  for (let k = 0; k < 10; k++) {
    Fake.last.drop();
    t.mock.timers.tick(5000);
  }
  assert.deepEqual(states.at(-1), ["lost", 5000]);
});

test("an idle socket stays closed without a state change until wake()", (t) => {
  const { Fake, states, socket: one } = socket(t);
  Fake.last.accept();
  Fake.last.drop(4000);
  t.mock.timers.tick(60_000);
  assert.equal(Fake.all.length, 1);
  assert.deepEqual(states, [["open"]]);
  one.wake();
  assert.equal(Fake.all.length, 2);
});

test("an idle close that crosses a message reconnects at once", (t) => {
  const { Fake, states } = socket(t, { isBusy: true, requeue: () => true });
  Fake.last.accept();
  Fake.last.drop(4000);
  assert.equal(Fake.all.length, 2);
  assert.deepEqual(states, [["open"]]);
});

test("close() is final", (t) => {
  const { Fake, states, socket: one } = socket(t);
  const [first] = Fake.all;
  first.accept();
  one.close();
  first.drop();
  t.mock.timers.tick(60_000);
  assert.equal(Fake.all.length, 1);
  assert.deepEqual(states, [["open"]]);
  assert.equal(one.send({ type: "x" }), false);
});

test("edits of a timed text keep the times of the other characters", () => {
  const text = new TimedText();
  text.edit(0, 0, "a😀c", 100);
  text.edit(1, 1, "bb", 250);
  assert.equal(text.text(), "abbc");
  assert.deepEqual(text.times, [100, 250, 250, 100]);
  assert.deepEqual([text.firstMs, text.endMs, text.length], [100, 250, 4]);
});

test("countArrived() counts from the first character", () => {
  const text = new TimedText();
  for (const [k, letter] of Array.from("abcd").entries()) text.edit(k, 0, letter, 1000 + 100 * k);
  assert.deepEqual(
    [-1, 0, 150, 300, 999].map((ms) => text.countArrived(ms)),
    [0, 1, 2, 4, 4],
  );
});

for (const [text, expected] of /** @type {[string, string[]][]} */ ([
  ["One. Two!", ["One. ", "Two!"]],
  ["Mr. Smith went. He did.", ["Mr. Smith went. ", "He did."]],
  ["“So?” he said. Yes", ["“So?” ", "he said. ", "Yes"]],
  ["3.5 is e.g. a number. So", ["3.5 is e.g. a number. ", "So"]],
  ["a line\n\nand another", ["a line\n\n", "and another"]],
  ["no end", ["no end"]],
  ["", []],
])) {
  test(`sentences of ${JSON.stringify(text)}`, () => {
    const chars = Array.from(text);
    assert.deepEqual(
      sentences(chars).map(([from, to]) => chars.slice(from, to).join("")),
      expected,
    );
  });
}

test("a sentence arrives with its last visible character", () => {
  const text = new TimedText();
  for (const [k, letter] of Array.from("a b. c ").entries()) text.edit(k, 0, letter, 500 + 10 * k);
  assert.deepEqual(sentenceArrivals(text), [
    { tMs: 30, text: "a b. " },
    { tMs: 50, text: "c " },
  ]);
});

test("tokens are words with their leading space, long words in parts", () => {
  assert.deepEqual(tokens("Hi, internationally so"), ["Hi", ",", " intern", "ationa", "lly", " so"]);
  assert.equal(tokens(" a  b\n").join(""), " a  b\n");
  assert.deepEqual(tokens(""), []);
  assert.deepEqual(
    tokenArrivals("a b c", 10).map(({ tMs }) => tMs),
    [0, 100, 200],
  );
});

test("key presses have a constant word rate and no space at the end", () => {
  const keys = keystrokes("  one  two three ", 120);
  assert.equal(keys.map(({ text }) => text).join(""), "one two three");
  const spaces = keys.filter(({ text }) => text === " ");
  assert.deepEqual(
    spaces.map(({ tMs }) => tMs),
    [500, 1000],
  );
  assert.ok(keys.every(({ tMs }, k) => k === 0 || tMs > keys[k - 1].tMs));
  assert.ok(keys.at(-1).tMs < 1500);
});
