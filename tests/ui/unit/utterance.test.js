// Latency figures, pacing and text positions of an utterance.

import assert from "node:assert/strict";
import { test } from "node:test";
import { positionMap } from "../../../studio/ui/widgets/live/field/position_map.js";
import { outside, pieceStarts } from "../../../studio/ui/widgets/live/field/word_highlights.js";
import { Phrases, phraseWords, rateFor, spokenWpm, typedWpm } from "../../../studio/ui/widgets/live/worker/pacing.js";
import { positionOfWord } from "../../../studio/ui/widgets/live/worker/remaining_text.js";
import { Utterance } from "../../../studio/ui/widgets/live/worker/utterance.js";
import { parsePacket } from "../../../studio/ui/widgets/wire/packet.js";
import { packet } from "./fakes.js";

const RATE_HZ = 24_000;

function utterance() {
  const u = new Utterance(1, "keyboard", RATE_HZ);
  const put = (first, value, count = 600) => {
    const samples = new Array(count).fill(0).map((_, k) => (k % 2 ? value : -value));
    return u.packet(parsePacket(packet({ first, samples })));
  };
  return { u, put };
}

test("the first audible sample is found in blocks of 5 ms", () => {
  const { u, put } = utterance();
  assert.equal(put(0, 10), -1);
  assert.equal(put(600, 9000), 600);
  assert.equal(put(1200, 9000), -1, "it is reported once");
  assert.equal(u.audible, 600);
  assert.equal(u.samples, 1800);
});

test("a revision drops samples and gaps behind it", () => {
  const { u, put } = utterance();
  put(0, 9000);
  put(600, 9000);
  u.gap(1200, 50);
  u.gap(300, 50);
  u.event({ type: "revised", take: 1, words: 0, from_sample: 700 });
  assert.deepEqual([u.take, u.samples, u.pcm.at(-1).data.length], [1, 700, 100]);
  assert.deepEqual(
    u.gaps.map(({ sample }) => sample),
    [300],
  );
});

test("a gap has the reason of the longest server wait near it, else the network", () => {
  const { u } = utterance();
  u.event({ type: "wait", reason: "text", sample: 600, duration_ms: 90 });
  u.event({ type: "wait", reason: "compute", sample: 620, duration_ms: 30 });
  u.event({ type: "wait", reason: "credit", sample: 600, duration_ms: 999 });
  assert.equal(u.gap(610, 100).reason, "text");
  assert.equal(u.gap(9000, 240).reason, "network");
  const { stalls, text, credit } = u.figures();
  assert.deepEqual(
    [stalls, text],
    [
      { count: 1, ms: 10 },
      { count: 1, ms: 4 },
    ],
  );
  assert.deepEqual(credit, { count: 1, ms: 999 });
});

test("the first sound is measured from the key that completed the window", () => {
  const { u, put } = utterance();
  u.noteSent(100, "one ");
  u.event({ type: "committed", i: 0, word: "one", char_start: 0, char_end: 3 });
  u.noteSent(400, "two ");
  u.event({ type: "committed", i: 1, word: "two", char_start: 4, char_end: 7 });
  u.event({ type: "segment", seen: [0, 1], words: [0] });
  put(0, 9000);
  u.first.audibleMs = 1000;
  const figures = u.figures();
  assert.deepEqual([figures.first_audio_ms, figures.first_audio_cause, figures.from_first_word_ms], [600, "key", 900]);
});

test("the server's share is unknown where its messages were taken together", () => {
  const { u } = utterance();
  Object.assign(u.first, { keyMs: 10, committedMs: 50, packetMs: 50.5, audibleMs: 80 });
  assert.equal(u.figures().server_ms, null);
  u.first.packetMs = 58;
  assert.equal(u.figures().server_ms, 8);
});

test("after a flush the first sound is measured from the flush", () => {
  const { u } = utterance();
  u.noteSent(100, "one ");
  u.event({ type: "committed", i: 0, word: "one", char_start: 0, char_end: 3 });
  u.noteClosing(110, "finish");
  assert.equal(u.closing.cause, "key", "at the same time as a key, the key counts");
  u.noteClosing(800, "finish");
  u.event({ type: "segment", seen: [0], words: [0] });
  assert.deepEqual([u.first.keyMs, u.first.cause], [800, "finish"]);
});

test("the real-time factor is final once the server reports its compute time", () => {
  const { u, put } = utterance();
  put(0, 9000, 24_000);
  assert.deepEqual([u.figures().rtf, u.figures().rtf_final], [null, false]);
  u.event({ type: "ended", compute_ms: 250 });
  assert.deepEqual([u.figures().rtf, u.figures().rtf_final], [0.25, true]);
});

test("spoken characters end before the first word without all its samples", () => {
  const { u, put } = utterance();
  for (const [i, word] of ["one", "two"].entries()) {
    u.event({ type: "committed", i, word, char_start: 4 * i, char_end: 4 * i + 3 });
  }
  assert.equal(u.spokenChars, 0);
  u.event({ type: "word_end", i: 0, sample: 600 });
  assert.equal(u.spokenChars, 0);
  put(0, 9000);
  assert.equal(u.spokenChars, 4);
  u.event({ type: "word_end", i: 1, sample: 600 });
  assert.equal(u.spokenChars, 7);
});

const typedEvery = (ms) => Array.from({ length: 9 }, (_, k) => ({ word: k === 1 ? "so," : "word", keyMs: k * ms }));

test("phrases are as long as the typing speed allows, and end at punctuation", () => {
  assert.deepEqual([null, 42, 60, 119, 150].map(phraseWords), [3, 3, 4, 7, 1]);
  const ends = (ms) => {
    const words = typedEvery(ms);
    const phrases = new Phrases();
    return [...words.keys()].filter((i) => phrases.endsWith(words.slice(0, i + 1), i));
  };
  assert.deepEqual(ends(1000), [1, 5]);
  assert.deepEqual(ends(300), [1, 2, 3, 4, 5, 6, 7, 8]);
});

test("typing and speaking rates", () => {
  assert.equal(Math.round(typedWpm(typedEvery(1000))), 60);
  assert.equal(typedWpm(typedEvery(1000).slice(0, 2)), null);
  const spoken = Array.from({ length: 3 }, (_, k) => ({ sample: k * 24_000, endSample: k * 24_000 + 12_000 }));
  assert.equal(spokenWpm(spoken, RATE_HZ), 120);
  assert.equal(spokenWpm(spoken.slice(1), RATE_HZ), null);
});

test("the playback rate is 0.8 for slow typing and 1 from 120 words per minute on", () => {
  const rates = [20, 60, 90, 120, 300, null].map(rateFor);
  const expected = [0.8, 0.8, 0.9, 1, 1, 1];
  assert.ok(
    rates.every((rate, k) => Math.abs(rate - expected[k]) < 1e-9),
    String(rates),
  );
});

for (const [sent, at, field, expected] of /** @type {[string, number, string, number][]} */ ([
  ["one two three ", 4, "one two three fo", 4],
  ["teh cat sat ", 8, "their cat sat on", 10],
  ["😀 be ", 2, "😀 be", 2],
  ["  a b", 4, "  a b", 4],
  ["a b ", 0, "a b", 0],
  ['say "so ', 5, 'say "so', 4],
])) {
  test(`position ${at} of ${JSON.stringify(sent)} in ${JSON.stringify(field)}`, () => {
    assert.equal(positionOfWord(sent, at, field), expected);
  });
}

/** Where words of the text as sent are in the field. */
function found(sent, field, words) {
  const chars = Array.from(field);
  const at = positionMap(Array.from(sent), chars);
  return words.map((word) => {
    const from = Array.from(sent.slice(0, sent.indexOf(word))).length;
    return chars.slice(at(from), at(from + Array.from(word).length)).join("");
  });
}

for (const [sent, field, words] of [
  ["My brother sold his car to a friend last week. ", "My sold his car to a last week. ", "sold his car last week."],
  ["my brother met a friend last week ", "my sister met a neighbour last week and", "my met last week"],
  ["😀 see teh tall man sat ", "😀 see the man now sat", "😀 see man sat"],
  ["one one one two ", "one one two", "two"],
  ["a b c ", "a b c ", "a b c"],
]) {
  test(`words of ${JSON.stringify(sent)} are found in ${JSON.stringify(field)}`, () => {
    assert.deepEqual(found(sent, field, words.split(" ")), words.split(" "));
  });
}

test("a replaced word maps to its replacement, a deleted one to nothing", () => {
  const replaced = ["my brother met a friend last week ", "my sister met a neighbour last week"];
  assert.deepEqual(found(...replaced, ["brother", "friend"]), ["sister", "neighbour"]);
  assert.equal(found("the tall man ", "the man ", ["tall"])[0].trim(), "");
  assert.deepEqual(found("a b ", "", ["a", "b"]), ["", ""]);
});

for (const text of ["😀".repeat(3000), `x${"😀".repeat(3000)}`, "one two ".repeat(700), "short", ""]) {
  test(`a text of ${text.length} units is split between characters, after spaces if it can`, () => {
    const starts = pieceStarts(text);
    const pieces = starts.map((from, k) => text.slice(from, starts[k + 1]));
    assert.equal(pieces.join(""), text);
    assert.ok(pieces.every((piece) => piece.isWellFormed() && piece.length <= 1026));
    assert.ok(!text.includes(" ") || pieces.every((piece) => piece.endsWith(" ")));
  });
}

test("a span outside others, which are in order", () => {
  assert.deepEqual(outside([0, 10], []), [[0, 10]]);
  assert.deepEqual(
    outside(
      [2, 10],
      [
        [0, 1],
        [2, 4],
        [6, 7],
        [9, 12],
        [20, 30],
      ],
    ),
    [
      [4, 6],
      [7, 9],
    ],
  );
  assert.deepEqual(outside([2, 4], [[0, 9]]), []);
});
