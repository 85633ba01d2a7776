// Listening tests: played intervals, playback of one screen, answer inputs, texts, and stages.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import "./fake_dom.js";
import { revealed } from "../../../studio/ui/widgets/rate/arena.js";
import { Deck, Spans } from "../../../studio/ui/widgets/rate/deck.js";
import { chosen, scored } from "../../../studio/ui/widgets/rate/marks.js";
import { STAGES } from "../../../studio/ui/widgets/rate/stages.js";
import { RaterStorage } from "../../../studio/ui/widgets/rate/storage.js";
import { Words } from "../../../studio/ui/widgets/rate/words.js";
import { mockTimers } from "./fakes.js";

for (const [intervals, list, seconds] of /** @type {any[][]} */ ([
  [[], [], 0],
  [
    [
      [0, 1],
      [2, 3],
    ],
    [
      [0, 1],
      [2, 3],
    ],
    2,
  ],
  [
    [
      [2, 3],
      [0, 2.5],
    ],
    [[0, 3]],
    3,
  ],
  [
    [
      [0, 1],
      [1, 2],
    ],
    [[0, 2]],
    2,
  ],
  [
    [
      [0, 4],
      [1, 2],
    ],
    [[0, 4]],
    4,
  ],
  [
    [
      [0, 1],
      [4, 5],
      [0.5, 4.5],
    ],
    [[0, 5]],
    5,
  ],
  [
    [
      [3, 3],
      [5, 4],
    ],
    [],
    0,
  ],
])) {
  test(`the union of ${JSON.stringify(intervals)} is ${JSON.stringify(list)}`, () => {
    const spans = new Spans(intervals);
    assert.deepEqual([spans.list, spans.seconds], [list, seconds]);
  });
}

/** A context whose time the test sets. */
function deck(t, seconds, options = {}) {
  t.mock.timers.reset();
  mockTimers(t);
  const param = () => ({
    value: 1,
    cancelScheduledValues() {},
    setValueAtTime: () => param(),
    linearRampToValueAtTime() {},
  });
  class Node {
    constructor(_context, { buffer, gain } = /** @type {any} */ ({})) {
      Object.assign(this, { buffer, gain: { ...param(), value: gain } });
    }
    connect(next) {
      return next;
    }
    start() {}
    stop() {}
  }
  /** @type {any} */
  const scope = globalThis;
  scope.AudioBufferSourceNode = scope.GainNode = Node;
  const context = { state: "running", currentTime: 0, destination: {} };
  const buffers = seconds.map((duration) => ({ duration, length: duration * 1000 }));
  let count = 0;
  const on = { changed: () => count++, silent() {}, ...options.on };
  const one = new Deck(context, buffers, { ...options, on });
  const advance = (s) => {
    for (let k = 0; k < s * 20; k++) {
      context.currentTime += 0.05;
      t.mock.timers.tick(50);
    }
  };
  return { deck: one, context, advance };
}

test("a sound counts as heard once all of it was played, in any order", async (t) => {
  const { deck: one, advance } = deck(t, [2]);
  await one.play(0);
  advance(1.1);
  one.pause();
  assert.ok(!one.isHeard(0, 1) && one.isHeard(0, 0.5));
  await one.play(0);
  advance(1.5);
  assert.ok(one.isHeard(0, 1));
  assert.deepEqual([one.heardMs(0), one.slots[0].plays, one.isPlaying, one.slots[0].at], [2000, 2, false, 0]);
});

test("skipped audio does not count as heard", async (t) => {
  const { deck: one, advance } = deck(t, [10]);
  one.seek(0, 8);
  await one.play(0);
  advance(3);
  assert.ok(one.heardMs(0) > 1900 && one.heardMs(0) < 2100);
});

test("switching between synchronised sounds keeps the position", async (t) => {
  const { deck: one, advance } = deck(t, [4, 4], { together: true });
  await one.play(0);
  advance(1);
  await one.play(1);
  advance(1);
  assert.ok(Math.abs(one.position(0) - one.position(1)) < 1e-9);
  assert.deepEqual(
    one.slots.map(({ plays }) => plays),
    [1, 1],
  );
  assert.ok(one.heardMs(0) > 900 && one.heardMs(0) < 1100 && one.heardMs(1) > 900);
});

test("a region loops without counting plays; too short a region does not loop", async (t) => {
  const { deck: one, advance } = deck(t, [4, 4], { together: true });
  await one.play(0);
  assert.equal(one.repeat(1, 1.1), false);
  assert.equal(one.repeat(1, 2), true);
  advance(5);
  assert.ok(one.position(0) >= 0.9 && one.position(0) <= 2.1);
  assert.equal(one.slots[0].plays, 1);
});

test("playback state survives a reload", async (t) => {
  const { deck: one, advance } = deck(t, [2, 2]);
  await one.play(1);
  advance(0.5);
  one.pause();
  const { deck: again } = deck(t, [2, 2], { playback: JSON.parse(JSON.stringify(one.playback)) });
  assert.deepEqual([again.heardMs(1), again.slots[1].plays, again.heardMs(0)], [one.heardMs(1), 1, 0]);
});

test("a sound that must not be played yet does not start", async (t) => {
  const { deck: one } = deck(t, [2], { on: { mayPlay: () => false } });
  await one.play(0);
  assert.equal(one.isPlaying, false);
});

const texts = JSON.parse(readFileSync(new URL("../../../studio/ui/widgets/rate/words.json", import.meta.url), "utf8"));
const words = new Words(texts);

test("texts are in the language of the tag, with English as the fallback", () => {
  const own = new Words({ en: { a: "A {n}", b: "B" }, de: { a: "DE {n}" } });
  own.setLanguage("de-CH");
  assert.deepEqual([own.language, own.text("a", { n: 2 }), own.text("b")], ["de", "DE 2", "B"]);
  own.setLanguage("xx");
  assert.deepEqual([own.language, own.text("a", { n: 0 })], ["en", "A 0"]);
});

test("every language has the keys and placeholders of English", () => {
  const placeholders = (text) => [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).sort();
  assert.deepEqual(Object.keys(texts).sort(), ["de", "en", "es", "fr", "ja"]);
  for (const [language, own] of Object.entries(texts)) {
    assert.deepEqual(Object.keys(own).sort(), Object.keys(texts.en).sort(), language);
    for (const [key, text] of Object.entries(own))
      assert.deepEqual(placeholders(text), placeholders(texts.en[key]), `${language} ${key}`);
  }
  assert.ok(Object.values(texts).every((own) => Object.values(own).every(Boolean)));
});

test("positions of trials, and of battles without an end", () => {
  assert.equal(words.place({ position: 2, of: 20 }), "3 of 20");
  assert.equal(words.place({ position: 2, of: null }), words.text("arena_battle", { n: 3 }));
});

/** @returns {any} */
const input = (question, changed = (_mark) => {}) => scored(question, null, false, words, changed);
const QUESTION = { prompt: "How good?", low: 1, high: 5, labels: { 1: "Bad", 5: "Excellent" } };

test("a short scale has labelled steps, a signed one has signs", () => {
  const mark = input(QUESTION);
  assert.equal(mark.inputs.size, 5);
  assert.equal(mark.set(6), false);
  assert.equal(mark.set(5), true);
  assert.deepEqual([mark.value, mark.announcement], [5, "5Excellent"]);
  const signed = input({ ...QUESTION, low: -3, high: 3, labels: {} });
  assert.deepEqual(
    [...signed.inputs.values()].map((input) => input.parentElement.textContent),
    ["−3", "−2", "−1", "0", "+1", "+2", "+3"],
  );
});

test("a long scale is a slider that accepts whole numbers of the scale", () => {
  const changes = [];
  const mark = input({ ...QUESTION, low: 0, high: 100, labels: {} }, (one) => changes.push(one.value));
  for (const [text, value, isRefused] of /** @type {[string, number, boolean][]} */ ([
    ["70", 70, false],
    ["101", null, true],
    ["7.5", null, true],
    ["", null, false],
  ])) {
    mark.number.value = text;
    mark.number.emit("input");
    assert.deepEqual([mark.value, mark.isRefused], [value, isRefused], text);
  }
  assert.equal(mark.set(-1), false);
  assert.equal(mark.set(0), true);
  assert.deepEqual(changes, [70, null, null, null, 0]);
});

test("choices are shown with A left and B right, whatever their order", () => {
  const mark = /** @type {any} */ (chosen("ab", "", ["b", "tie", "a"], words, () => {}));
  assert.deepEqual([...mark.inputs.keys()], ["a", "tie", "b"]);
  assert.equal(mark.set("both_bad"), false);
});

test("a vote is sent by the press of its button", () => {
  const votes = [];
  const mark = /** @type {any} */ (chosen("ab", "", ["b", "tie", "a"], words, (one) => votes.push(one.value), true));
  assert.deepEqual([...mark.buttons.keys()], ["a", "tie", "b"]);
  mark.buttons.get("tie").emit("click");
  assert.equal(mark.set("both_bad"), false);
  assert.deepEqual(votes, ["tie"]);
});

function storage(isBlocked) {
  const items = new Map();
  const check = () => {
    if (isBlocked) throw new Error("blocked");
  };
  const value = {
    getItem(key) {
      check();
      return items.get(key) ?? null;
    },
    setItem(key, text) {
      check();
      items.set(key, text);
    },
    removeItem(key) {
      check();
      items.delete(key);
    },
  };
  Object.defineProperty(globalThis, "localStorage", { configurable: true, value });
  return items;
}

for (const isBlocked of [false, true]) {
  test(`a draft is stored ${isBlocked ? "in memory where storage is blocked" : "in the browser"}`, () => {
    const items = storage(isBlocked);
    const one = new RaterStorage("test");
    one.set("draft", { a: 1 });
    assert.deepEqual(one.get("draft"), { a: 1 });
    assert.deepEqual([...items.keys()], isBlocked ? [] : ["studio-rate|test|draft"]);
    one.drop("draft");
    assert.equal(one.get("draft"), null);
  });
}

test("invalid stored data is ignored", () => {
  storage(false).set("studio-rate|test|draft", "{");
  assert.equal(new RaterStorage("test").get("draft"), null);
});

function rater() {
  storage(false);
  const passed = [];
  return {
    rater: {
      words,
      storage: new RaterStorage("x"),
      calls: { server: "http://x/mos/" },
      pass: (...values) => passed.push(values),
      ask: async () => true,
      announce() {},
      proceed() {},
    },
    passed,
  };
}

const buttons = (element) => element.all(({ tagName }) => tagName === "BUTTON");

test("consent passes the version that was shown; a refusal is confirmed first", async () => {
  const { rater: one, passed } = rater();
  const card = STAGES.consent(one, { text: "Text", version: "2" });
  const [agree, refuse] = buttons(card);
  agree.emit("click");
  await refuse.emit("click");
  await new Promise(setImmediate);
  assert.deepEqual(passed, [
    ["consent", { agreed: true, version: "2" }],
    ["consent", { agreed: false, version: "2" }],
  ]);
});

test("screening needs an answer to every question", () => {
  const { rater: one, passed } = rater();
  const questions = ["q1", "q2"].map((id) => ({ id, prompt: id, options: ["Yes", "No"] }));
  const card = STAGES.screening(one, { questions });
  const inputs = card.all(({ tagName }) => tagName === "INPUT");
  const [go] = buttons(card);
  inputs[0].emit("change");
  go.emit("click");
  assert.deepEqual(passed, []);
  inputs[3].emit("change");
  go.emit("click");
  assert.deepEqual(passed, [["screening", { answers: { q1: "Yes", q2: "No" } }]]);
});

test("a comment is stored while it is typed, and removed at the end", () => {
  const { rater: one, passed } = rater();
  const card = STAGES.comments(one);
  const [field] = card.all(({ tagName }) => tagName === "TEXTAREA");
  field.value = "Nice.";
  field.emit("input");
  assert.equal(one.storage.get("comment"), "Nice.");
  buttons(card)[0].emit("click");
  assert.deepEqual(passed, [["comments", { comment: "Nice." }]]);
  STAGES.done(one, { text: "Thanks", code: null, redirect: null });
  assert.equal(one.storage.get("comment"), null);
});

test("a preview does not redirect; only web addresses are links", () => {
  const { rater: one } = rater();
  const preview = STAGES.done({ ...one, isPreview: true }, { text: "", code: "C1", redirect: "https://panel/x" });
  assert.ok(preview.textContent.includes("C1") && preview.textContent.includes("https://panel/x"));
  const unsafe = STAGES.done({ ...one, isPreview: true }, { text: "", code: null, redirect: "javascript:alert(1)" });
  assert.ok(!unsafe.textContent.includes("javascript"));
});

test("a refused rater's code is deleted", () => {
  const { rater: one } = rater();
  one.storage.set("code", "ABC");
  STAGES.refused(one, {});
  assert.equal(one.storage.get("code"), null);
});

test("a battle's voices are named after the vote", () => {
  const card = revealed(rater().rater, { voices: ["wren:a", "finch:b"], titles: ["Wren"] }, "tie");
  assert.ok(card.textContent.includes("Wren") && card.textContent.includes("finch:b"));
});
