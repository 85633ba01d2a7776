// The feed of the player, the live spectrogram's columns, and its marks.

import assert from "node:assert/strict";
import { test } from "node:test";
import { diverging, palette } from "../../../studio/ui/widgets/sound/colours.js";
import { Feed } from "../../../studio/ui/widgets/sound/feed.js";
import { layoutLabels, lowerBound, marksIn } from "../../../studio/ui/widgets/sound/marks.js";
import { HOP_S, heightOf, ROWS, Spectrum } from "../../../studio/ui/widgets/sound/spectrum.js";
import { parsePacket } from "../../../studio/ui/widgets/wire/packet.js";
import { fakePaint, packet } from "./fakes.js";

const RATE_HZ = 24_000;
const FRAME = 600;

function feed() {
  const calls = [];
  const on = new Proxy(
    {},
    {
      get:
        (_, name) =>
        (...values) =>
          calls.push([name, ...values]),
    },
  );
  const port = { messages: [], postMessage: (message) => port.messages.push(message), onmessage: null };
  const one = new Feed(on);
  const put = (k) => one.packet(parsePacket(packet({ first: k * FRAME, samples: new Array(FRAME).fill(k) })), -1);
  const firsts = () => port.messages.filter(({ type }) => type === "pcm").map(({ first }) => first / FRAME);
  const receive = (message) => port.onmessage({ data: { play: one.play, ...message } });
  return { feed: one, port, calls, put, firsts, receive };
}

test("messages before the port are sent when it connects, without those of an earlier play", () => {
  const { feed: one, port, put, firsts } = feed();
  one.begin();
  put(0);
  one.begin();
  put(0);
  one.connect(port, RATE_HZ);
  assert.deepEqual(firsts(), [0]);
  assert.deepEqual(
    port.messages.map(({ type, play }) => [type, play]),
    [
      ["begin", 2],
      ["pcm", 2],
    ],
  );
});

test("words are held until they are complete", () => {
  const { feed: one, port, put, firsts } = feed();
  one.connect(port, RATE_HZ);
  one.begin();
  one.holdWords(true);
  for (let k = 0; k < 4; k++) put(k);
  assert.deepEqual(firsts(), []);
  one.release(2 * FRAME);
  assert.deepEqual(firsts(), [0, 1]);
  one.holdWords(false);
  assert.deepEqual(firsts(), [0, 1, 2, 3]);
});

for (const [mode, seconds] of /** @type {[("holdWords" | "holdPhrases"), number][]} */ ([
  ["holdWords", 1.2],
  ["holdPhrases", 4],
])) {
  test(`${mode} holds at most ${seconds} s`, () => {
    const { feed: one, port, put, firsts } = feed();
    one.connect(port, RATE_HZ);
    one.begin();
    one[mode](true);
    const limit = (seconds * RATE_HZ) / FRAME;
    for (let k = 0; k < limit; k++) put(k);
    assert.deepEqual(firsts(), []);
    put(limit);
    assert.equal(firsts().length, limit + 1);
  });
}

test("a cut drops held packets behind it", () => {
  const { feed: one, port, put, firsts } = feed();
  one.connect(port, RATE_HZ);
  one.begin();
  one.holdPhrases(true);
  for (let k = 0; k < 4; k++) put(k);
  one.cut(2 * FRAME);
  one.final();
  assert.deepEqual(firsts(), [0, 1]);
  assert.deepEqual(
    port.messages.slice(-2).map(({ type }) => type),
    ["cut", "final"],
  );
});

test("underruns increase the prebuffer up to 0.12 s, but not while words are held", () => {
  const { feed: one, port } = feed();
  one.connect(port, RATE_HZ);
  for (let k = 0; k < 10; k++) one.increasePrebuffer();
  one.begin();
  const { prebuffer, rebuffer } = port.messages.at(-1);
  assert.deepEqual([prebuffer, rebuffer], [0.12 * RATE_HZ, 0.12 * RATE_HZ]);
  one.holdWords(true);
  const count = port.messages.length;
  one.increasePrebuffer();
  assert.equal(port.messages.length, count);
});

test("a replay repeats gaps and samples, two seconds ahead of the player", () => {
  const { feed: one, port, firsts, receive } = feed();
  one.connect(port, RATE_HZ);
  const pcm = Array.from({ length: 200 }, (_, k) => ({ first: 1200 + k * FRAME, data: new Int16Array(FRAME) }));
  const gaps = [
    { sample: 600, frames: 1, reason: "text" },
    { sample: 1800, frames: 240, reason: "text" },
  ];
  assert.equal(one.replay({ pcm, gaps, ended: true }), 1200);
  assert.deepEqual(port.messages[0].gaps, [[600, 240]]);
  assert.equal(firsts().length, 80);
  receive({ type: "report", sample: 12_000 });
  assert.equal(firsts().length, 100);
  receive({ type: "report", sample: 200 * FRAME });
  assert.equal(firsts().length, 200);
  assert.equal(port.messages.at(-1).type, "final");
  assert.equal(pcm[0].data.length, FRAME, "the stored samples were not transferred");
});

test("messages of the player reach the callbacks; those of an earlier play do not", () => {
  const { feed: one, port, calls, receive } = feed();
  one.connect(port, RATE_HZ);
  one.begin();
  receive({ type: "turn", playing: true, gap: 480, sample: 10 });
  receive({ type: "turn", playing: true, gap: 0, sample: 10 });
  for (const type of ["report", "audible", "done", "stopped", "fault"]) receive({ type });
  receive({ type: "done", play: 0 });
  assert.deepEqual(
    calls.map(([name]) => name),
    ["onBegin", "onResumed", "onReport", "onAudible", "onDone", "onStopped", "onFault"],
  );
  assert.deepEqual(calls[1].slice(1), [10, 480]);
});

const tone = (hz, seconds) =>
  Int16Array.from({ length: seconds * RATE_HZ }, (_, k) => 12_000 * Math.sin((2 * Math.PI * hz * k) / RATE_HZ));

for (const hz of [220, 1000, 4000]) {
  test(`a tone of ${hz} Hz is brightest in its row`, () => {
    const columns = new Spectrum(RATE_HZ).push(tone(hz, 0.2));
    assert.equal(columns.length, Math.floor(0.2 / HOP_S) * ROWS);
    const column = columns.subarray(15 * ROWS, 16 * ROWS);
    const expected = (1 - heightOf(hz, RATE_HZ)) * (ROWS - 1);
    const brightest = column.indexOf(Math.max(...column));
    assert.ok(Math.abs(brightest - expected) <= 2, `row ${brightest}, expected ${expected}`);
  });
}

test("columns do not depend on the sizes of the packets", () => {
  const pcm = tone(330, 0.3);
  const whole = new Spectrum(RATE_HZ).push(pcm);
  const one = new Spectrum(RATE_HZ);
  const parts = [];
  for (let from = 0, size = 1; from < pcm.length; from += size, size = (size * 7) % 1000) {
    parts.push(...one.push(pcm.subarray(from, from + size)));
  }
  assert.deepEqual(Uint8Array.from(parts), whole);
});

test("after a cut the spectrum continues as if it had stopped there", () => {
  const [before, after] = [tone(330, 0.1), tone(500, 0.1)];
  const straight = new Spectrum(RATE_HZ);
  straight.push(before);
  const cut = new Spectrum(RATE_HZ);
  cut.push(before);
  cut.push(tone(900, 0.05));
  cut.cut(before.length, before);
  assert.deepEqual(cut.push(after), straight.push(after));
});

test("palettes are opaque, and differ in brightness from end to end", () => {
  for (const isDark of [true, false]) {
    const colours = palette(isDark);
    const light = (v) => colours[4 * v] + colours[4 * v + 1] + colours[4 * v + 2];
    assert.ok(isDark ? light(255) > light(0) + 300 : light(0) > light(255) + 300);
    assert.ok(colours.every((value, k) => k % 4 !== 3 || value === 255));
    const difference = diverging(isDark);
    assert.notDeepEqual(difference.slice(0, 4), difference.slice(512, 516), "no data is not no difference");
  }
});

test("lowerBound() finds the first entry that is not below the limit", () => {
  const list = [1, 3, 3, 7];
  assert.deepEqual(
    [0, 1, 2, 3, 4, 8].map((limit) => lowerBound(list, (one) => one, limit)),
    [0, 0, 1, 1, 3, 4],
  );
});

test("of marks at one position the most informative is drawn", () => {
  const scope = {
    rateHz: RATE_HZ,
    eos: [{ sample: 24_000 }, { sample: 48_000 }],
    seams: [0, 24_010, 36_000],
    gaps: [
      { sample: 24_000, reason: "text" },
      { sample: 24_300, reason: "compute" },
      { sample: 60_000, reason: "text" },
      { sample: 99_000, reason: "text" },
    ],
  };
  const { eos, seams, gaps } = marksIn(scope, 0, 90_000);
  assert.deepEqual(
    eos.map((one) => one.sample),
    [24_000, 48_000],
  );
  assert.deepEqual(seams, [0, 36_000]);
  assert.deepEqual(gaps, [
    { sample: 24_000, isStall: true },
    { sample: 60_000, isStall: false },
  ]);
});

test("labels are in two rows without overlap, near their words", () => {
  const texts = ["a", "be", "internationalisation", "of", "words", "with", "widths"];
  const words = texts.map((text, k) => ({ text, start: k * 9600, end: (k + 1) * 9600 }));
  const open = { text: "open", start: 7 * 9600, end: 0 };
  const scope = { labels: [], words: [...words, open], paint: fakePaint(), rateHz: RATE_HZ, perSecond: 130 };
  const labels = layoutLabels(scope);
  assert.equal(labels.length, words.length, "a word without an end has no label");
  const edges = [-Infinity, -Infinity];
  for (const [k, { x, width, row }] of labels.entries()) {
    assert.ok(x >= edges[row]);
    assert.ok(Math.abs(x + width / 2 - (130 * (k + 0.5) * 9600) / RATE_HZ) < 60);
    edges[row] = x + width;
  }
  assert.deepEqual(new Set(labels.map(({ row }) => row)), new Set([0, 1]));
});
