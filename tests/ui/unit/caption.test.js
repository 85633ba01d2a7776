// The caption of spoken words, and the figures and messages beside it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Caption } from "../../../studio/ui/widgets/live/field/caption.js";
import { Figures } from "../../../studio/ui/widgets/live/figures.js";
import { Status } from "../../../studio/ui/widgets/live/status.js";
import { setTexts } from "../../../studio/ui/widgets/page/translate.js";
import { FakeElement, fakeRoot } from "./fake_dom.js";
import { mockTimers } from "./fakes.js";

function caption(text = "", reasons = {}) {
  const root = fakeRoot();
  const one = new Caption(root, reasons);
  const lit = [];
  one.onLit = (i) => lit.push(i);
  if (text) one.event({ type: "text", char_start: 0, text });
  let at = 0;
  for (const [i, word] of text.split(" ").filter(Boolean).entries()) {
    one.event({ type: "committed", i, word, char_start: at, char_end: at + Array.from(word).length });
    one.event({ type: "word_start", i, sample: 1000 * i, source: i % 2 ? "estimate" : "eos" });
    one.event({ type: "word_end", i, sample: 1000 * i + 800 });
    at += Array.from(word).length + 1;
  }
  one.draw();
  const line = root.querySelector(".words");
  const classes = () =>
    line.children
      .filter(({ tagName }) => tagName === "SPAN")
      .slice(0, -1)
      .map((node) => [node.textContent, node.className]);
  return { caption: one, root, line, lit, classes };
}

test("words light in order, up to the playback position", () => {
  const { caption: one, lit, classes } = caption("one two three");
  one.update(1500, 0);
  assert.deepEqual(lit, [0, 1]);
  assert.deepEqual(classes(), [
    ["one", "w was"],
    ["two", "w now"],
    ["three", "w"],
  ]);
  one.update(1900, 0);
  assert.equal(classes()[1][1], "w was", "between words none is current");
});

test("a replay starts without lit words", () => {
  const { caption: one, lit, classes } = caption("one two");
  one.update(5000, 0);
  one.rewind();
  assert.deepEqual(
    classes().map(([, name]) => name),
    ["w", "w"],
  );
  one.update(500, 0);
  assert.deepEqual(lit, [0, 1, 0]);
});

test("several spoken words of one written word light it together", () => {
  const { caption: one, classes } = caption();
  one.event({ type: "text", char_start: 0, text: "1999 " });
  for (const i of [0, 1, 2]) {
    one.event({ type: "committed", i, word: "x", char_start: 0, char_end: 4 });
    one.event({ type: "word_start", i, sample: 1000 * i });
  }
  one.update(1500, 0);
  assert.deepEqual(classes(), [["1999", "w now"]]);
  one.update(2500, 0);
  assert.deepEqual(classes(), [["1999", "w now"]]);
});

test("uncommitted text is the tail", () => {
  const { caption: one, line } = caption("one two");
  one.event({ type: "text", char_start: 7, text: " three fo" });
  one.setHeld("ur");
  one.draw();
  assert.equal(line.textContent, "one two  three four");
});

test("a revision removes the words behind it", () => {
  const { caption: one, classes, line } = caption("one two three");
  one.update(500, 0);
  one.event({ type: "revised", words: 1, from_sample: 1000 });
  one.event({ type: "text", char_start: 4, text: "TWO " });
  one.event({ type: "committed", i: 1, word: "TWO", char_start: 4, char_end: 7 });
  one.draw();
  assert.deepEqual(classes(), [
    ["one", "w now"],
    ["TWO", "w"],
  ]);
  assert.deepEqual([one.starts, one.ends], [[0], [800]]);
  assert.ok(!line.textContent.includes("three"));
});

test("a change of a spoken word is shown beside it, once", () => {
  const { caption: one, line, classes } = caption("a cat sat");
  one.update(5000, 0);
  for (const text of ["do", "dog"]) one.event({ type: "edited", first: 1, last: 1, text });
  assert.equal(classes()[1][1], "w edited was");
  assert.deepEqual(
    line.children.filter(({ tagName }) => tagName === "INS").map((node) => node.textContent),
    ["dog"],
  );
});

test("unsupported text is shown with its reason, at most six in the list", () => {
  const { caption: one, root, classes } = caption();
  one.event({ type: "text", char_start: 0, text: "😀".repeat(8) });
  for (let k = 0; k < 8; k++) one.event({ type: "unsupported", char_start: k, char_end: k + 1, why: "no letters" });
  one.event({ type: "unsupported", char_start: 0, char_end: 1, why: "no letters" });
  one.draw();
  assert.equal(classes().length, 8);
  assert.deepEqual(classes()[0], ["😀", "w unsupported"]);
  const list = root.querySelector(".leftout");
  assert.deepEqual([list.childElementCount, list.hidden, list.children[0].textContent], [6, false, "😀 no letters"]);
});

test("a reason is shown in the page's language, with its values", () => {
  setTexts({ "{language} only: {char}": "nur {language}: {char}", English: "Englisch" });
  const { caption: one, root } = caption("", { letter: "{language} only: {char}" });
  one.event({ type: "text", char_start: 0, text: "日本" });
  const values = { language: "English", char: "日" };
  one.event({ type: "unsupported", char_start: 0, char_end: 1, why: "English only: 日", code: "letter", values });
  one.event({ type: "unsupported", char_start: 1, char_end: 2, why: "not now", code: "newer", values: {} });
  setTexts({});
  const shown = root.querySelector(".leftout").children.map((item) => item.textContent);
  assert.deepEqual(shown, ["日 nur Englisch: 日", "本 not now"]);
});

test("only words near the playback position are in the DOM", () => {
  const { caption: one, classes } = caption(Array.from({ length: 2000 }, (_, k) => `w${k}`).join(" "));
  assert.equal(classes().length, 160);
  for (let k = 0; k < 1500; k += 50) one.update(1000 * k + 1, 0);
  assert.ok(classes().length <= 400 + 160 && classes()[0][0] === "w1050", classes()[0][0]);
});

test("screen readers get new words at intervals, only if asked", () => {
  const { caption: one, root } = caption("one two three");
  const reader = root.querySelector(".heard");
  one.update(500, 5000);
  assert.equal(reader.textContent, "");
  one.isAnnounced = true;
  one.update(1500, 6000);
  assert.equal(reader.textContent, "one two");
  one.update(2500, 6500);
  assert.equal(reader.textContent, "one two");
  one.update(2500, 7900);
  assert.equal(reader.textContent, "three");
});

function figures() {
  const root = Object.assign(fakeRoot(), { querySelectorAll: () => [] });
  const text = (kind, name) => root.querySelector(`[data-${kind}="${name}"]`).textContent;
  return { figures: new Figures(root), root, text };
}

const NONE = { count: 0, ms: 0 };
const FIGURES = {
  mode: "keyboard",
  first_audio_ms: 180.4,
  first_audio_cause: "key",
  from_first_word_ms: 1234,
  server_ms: 90,
  rtf: 0.123,
  rtf_final: true,
  text: NONE,
  compute: NONE,
  network: NONE,
  stalls: NONE,
  credit: NONE,
  audio_ms: 2500,
  buffered_ms: 40,
};

test("figures in their units", () => {
  const { figures: one, text } = figures();
  one.show({ ...FIGURES, typed_wpm: 61.4, spoken_wpm: 150 });
  assert.deepEqual(
    ["first", "key", "rtf", "stalls", "buffered"].map((name) => text("figure", name)),
    ["1.2 s", "180 ms", "0.12 s", "0", "40 ms"],
  );
  assert.equal(text("sub", "key"), "90 ms of it in the server");
  assert.equal(text("sub", "pace"), "You type 61 words per minute, the voice speaks 150.");
  assert.equal(text("time", "live"), "1.2 s");
});

test("stalls are named by their cause; long times are in seconds", () => {
  const { figures: one, text, root } = figures();
  const more = { stalls: { count: 3, ms: 12_000 }, compute: { count: 2, ms: 1 }, network: { count: 1, ms: 1 } };
  one.show({ ...FIGURES, ...more, text: { count: 2, ms: 940 }, first_audio_cause: "finish" });
  assert.deepEqual([text("figure", "stalls"), text("sub", "stalls")], ["3 · 12 s", "computer 2, network 1"]);
  assert.equal(text("figure", "text"), "2 · 0.9 s");
  assert.equal(text("sub", "key"), "90 ms of it in the server, after Finish");
  assert.ok(root.querySelector('[data-figure="stalls"]').classList.contains("bad"));
});

test("the bars of both modes are relative to the longer one", () => {
  const { figures: one, root, text } = figures();
  one.show(FIGURES);
  one.show({ ...FIGURES, mode: "old", from_first_word_ms: 2468 });
  const size = (name) => root.querySelector(`[data-bar="${name}"]`).style.inlineSize;
  assert.deepEqual([size("live"), size("old")], ["31%", "62%"]);
  one.clearComparison();
  assert.deepEqual([text("time", "live"), size("old")], ["–", "0"]);
});

function status(t) {
  mockTimers(t);
  const root = fakeRoot();
  const badge = root.querySelector(".chip");
  badge.lastElementChild = new FakeElement("span");
  return { status: new Status(root), line: root.querySelector(".status"), badge };
}

test("information disappears after 9 s, an error stays until its topic is dropped", (t) => {
  const { status: one, line } = status(t);
  one.show("info", "note");
  t.mock.timers.tick(9000);
  assert.equal(line.textContent, "");
  one.show("error", "lost", "socket");
  t.mock.timers.tick(60_000);
  one.drop("other");
  assert.equal(line.textContent, "lost");
  one.showMinor("warn", "slow", "slow");
  assert.equal(line.textContent, "lost");
  one.drop("socket");
  one.showMinor("warn", "slow", "slow");
  assert.equal(line.textContent, "slow");
});

test("the chip does not flicker between words", (t) => {
  const { status: one, badge } = status(t);
  const shown = () => badge.lastElementChild.textContent;
  one.chip("speaking", "keyboard");
  for (const ms of [500, 700]) {
    one.chip("listening", "keyboard");
    t.mock.timers.tick(ms);
    one.chip("speaking", "keyboard");
    assert.equal(shown(), "Speaking");
  }
  one.chip("listening", "old");
  t.mock.timers.tick(1200);
  assert.equal(shown(), "Waiting for a sentence");
  one.chip("offline", "old");
  assert.equal(shown(), "Not connected");
});
