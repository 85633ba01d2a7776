// The race: its text, its record, its picture, and its two lanes.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  drawRace,
  heightFor,
  latencyText,
  outcome,
  shortSentence,
} from "../../../studio/ui/widgets/live/race/paint.js";
import { raceText } from "../../../studio/ui/widgets/live/race/race.js";
import { RaceRecord } from "../../../studio/ui/widgets/live/race/race_record.js";
import { Race } from "../../../studio/ui/widgets/live/worker/race.js";
import { Schedule } from "../../../studio/ui/widgets/live/worker/schedule.js";
import { fakePaint, fakeSockets, mockTimers, packet } from "./fakes.js";

test("a race text has at most 40 words, and ends with a sentence if it can", () => {
  assert.equal(raceText("  a  b "), "a b");
  assert.equal(raceText("one two three. ".repeat(20)), "one two three. ".repeat(13).trim());
  assert.equal(raceText("word ".repeat(60)).split(" ").length, 40);
});

function record(words) {
  const one = new RaceRecord(words.join(" "), 60, ["a", "b"]);
  for (const k of [0, 1]) {
    let from = 0;
    for (const [i, word] of words.entries()) {
      one.event(k, { type: "committed", i, char_start: from, char_end: from + word.length });
      one.event(k, { type: "word_start", i, sample: 1000 * i });
      one.event(k, { type: "word_end", i, sample: 1000 * i + 900 });
      from += word.length + 1;
    }
  }
  return one;
}

test("words played between two drawn frames are lit too", () => {
  const one = record("One two three four five six.".split(" "));
  for (const tMs of [100, 200, 300, 400]) one.light(0, 10 * tMs - 50, tMs);
  one.startSecond(900);
  for (const tMs of [1000, 1100]) one.light(1, 10 * (tMs - 900) - 50, tMs);
  one.startSecond(1200);
  one.end(2000);
  const both = (...times) => times.map((ms) => [ms, ms]);
  assert.equal(one.secondMs, 900);
  assert.deepEqual(one.lanes[0].lit, both(100, 200, 300, 400, 900, 900));
  assert.deepEqual(one.lanes[1].lit, both(1000, 1100, 2000, 2000, 2000, 2000));
});

test("a spoken word belongs to the written word it starts in", () => {
  const one = new RaceRecord("It is 1999 now", 60, ["a", "b"]);
  one.event(0, { type: "committed", i: 0, char_start: 6, char_end: 10 });
  one.event(0, { type: "committed", i: 1, char_start: 11, char_end: 14 });
  assert.deepEqual(
    [0, 1].map((i) => one.writtenAt(one.lanes[0], i)),
    [2, 3],
  );
});

test("the sound level of a late frame is spread over the time it covers", () => {
  const one = record(["a"]);
  one.lanes[0].firstMs = 0;
  one.addLevels(0, 480, 20, () => 0.5);
  one.addLevels(0, 2400, 100, (from) => from);
  assert.deepEqual([...one.lanes[0].levels].slice(1), [0.5, 480, 960, 1440, 1920]);
});

test("the playheads of both lanes are one clock; then the second lane's alone moves, over its own levels", () => {
  const one = record(["a"]);
  for (const lane of one.lanes) lane.firstMs = 0;
  const play = (k, sample, tMs) => one.addLevels(k, sample, tMs, () => 0.5);
  play(0, 0, 100);
  for (const [sample, tMs] of [
    [2400, 200],
    [4800, 300],
    [4800, 700],
    [7200, 800],
  ])
    play(1, sample, tMs); // waits at 300
  assert.deepEqual([one.headMs(0, 500), one.headMs(1, 500)], [500, 500]);
  one.startSecond(1000);
  assert.equal(one.headMs(0, 1100), null);
  assert.deepEqual(
    [1100, 1150, 1200, 1250, 1300, 1900].map((tMs) => one.headMs(1, tMs)),
    [200, 250, 700, 750, 800, 800],
  );
});

test("the outcome is the difference of the two shown times", () => {
  const one = record(["a", "b"]);
  one.begin([
    { text: "a", tMs: 0 },
    { text: " ", tMs: 100 },
  ]);
  assert.equal(outcome(one), "");
  one.lanes[0].firstMs = 449;
  one.lanes[1].firstMs = 2351;
  assert.equal(latencyText(one, 0), "0.3 s after the first word");
  assert.equal(latencyText(one, 1), "2.3 s after the first word");
  assert.equal(outcome(one), "heard 2.0 s earlier");
  one.lanes[1].firstMs = 100;
  assert.equal(outcome(one), "heard 0.3 s later");
  for (const [lane, bars] of [50, 155].entries()) one.lanes[lane].levels.length = bars;
  assert.equal(outcome(one), "heard 0.3 s later");
  one.end(4000);
  assert.equal(outcome(one), "heard 0.3 s later, but done 2.1 s earlier");
  one.lanes[0].firstMs = 136.4;
  assert.equal(latencyText(one, 0), "36 ms after the first word");
  assert.equal(outcome(one), "heard at the same time");
  one.lanes[0].firstMs = 60;
  assert.equal(latencyText(one, 0), "before the first word was complete");
});

test("a first sentence that is shorter than the look-ahead is named as the reason", () => {
  const why = (text, first, second) => {
    const one = new RaceRecord(text, 150, ["a", "b"]);
    one.lanes[0].firstMs = first;
    one.lanes[1].firstMs = second;
    return shortSentence(one);
  };
  assert.match(why("Good morning. The kettle is on.", 900, 400), /first sentence is so short/);
  assert.equal(why("Good morning. The kettle is on.", 400, 900), "");
  assert.equal(why("The kettle is on and the bread is warm. Good.", 900, 400), "", "something else was slow");
});

test("all words fit on a phone, and a word being typed is whole with a faint rest", () => {
  const words = Array.from({ length: 40 }, (_, i) => `word${i}`);
  const one = new RaceRecord(words.join(" "), 150, ["a", "b"]);
  one.begin(Array.from(words.join(" ")).map((text, i) => ({ text, tMs: 10 * i })));
  const paint = fakePaint();
  const height = heightFor(paint, one, 270, 14);
  assert.ok(height < 500);
  const drawnAt = (tMs) => {
    paint.texts.length = 0;
    drawRace(paint, one, tMs, { x: 0, y: 0, width: 270, height }, {}, 14);
    return paint.texts.map(({ text }) => text);
  };
  const whole = drawnAt(10_000);
  for (const word of words) assert.equal(whole.filter((text) => text === word).length, 2, word);
  const half = drawnAt(21);
  assert.equal(half.filter((text) => text === "wor").length, 2);
  assert.equal(half.filter((text) => text === "d0").length, 2);
});

test("a schedule sends each text at its time, then is done", (t) => {
  mockTimers(t);
  const before = performance.now;
  let nowMs = 0;
  performance.now = () => nowMs;
  t.after(() => {
    performance.now = before;
  });
  const sent = [];
  const arrivals = [0, 100, 250].map((tMs) => ({ tMs, text: String(tMs) }));
  new Schedule(arrivals, { send: (text) => sent.push([text, nowMs]), done: () => sent.push(["done", nowMs]) });
  for (; nowMs < 400; nowMs += 10) t.mock.timers.tick(10);
  assert.deepEqual(
    sent.map(([text]) => text),
    ["0", "100", "250", "done"],
  );
  for (const [text, ms] of sent.slice(1, 3))
    assert.ok(ms >= Number(text) && ms <= Number(text) + 20, `${text} at ${ms}`);
});

function race(t, second = null) {
  const Fake = fakeSockets(t);
  const posted = [];
  const ports = [0, 1].map(() => ({ messages: [], postMessage: (m) => ports[0].messages.push(m), onmessage: null }));
  const settings = { voice: "tone:low", options: { m: 3 } };
  const one = new Race({ url: "ws://x", text: "a b.", wpm: 600, settings, second, ports, rateHz: 24_000 }, (m) =>
    posted.push(m),
  );
  Fake.last.accept();
  const what = (name) => posted.filter((m) => m.what === name);
  return { race: one, ports, socket: Fake.last, what, posted };
}

test("the clock starts when both lanes are admitted", (t) => {
  const { race: one, socket, what } = race(t);
  assert.deepEqual(
    socket.sent.map(({ type, utterance }) => [type, utterance]),
    [
      ["open", 0],
      ["open", 1],
    ],
  );
  one.text({ type: "queued", utterance: 1, ahead: 3 });
  one.text({ type: "ready", utterance: 0 });
  assert.deepEqual([what("queued")[0].ahead, what("begin").length], [3, 0]);
  one.text({ type: "ready", utterance: 1 });
  assert.equal(what("begin").length, 1);
});

test("another voice has its own settings", (t) => {
  const { socket } = race(t, { voice: "tone:high", options: { m: 6 } });
  assert.deepEqual(
    socket.sent.map(({ voice }) => voice),
    ["tone:low", "tone:high"],
  );
});

test("the second sound plays after the first, then the race is over", (t) => {
  const { race: one, ports, what, socket } = race(t);
  for (const utterance of [0, 1]) one.text({ type: "ready", utterance });
  for (const utterance of [0, 1]) {
    one.packet(packet({ utterance, samples: new Array(600).fill(9000) }));
    ports[utterance].onmessage({ data: { type: "audible", play: 1, date: Date.now(), sample: 0 } });
    one.text({ type: "ended", utterance, compute_ms: 1 });
  }
  assert.equal(what("peaks").length, 2);
  assert.equal(what("heard").length, 2);
  ports[0].onmessage({ data: { type: "done", play: 1, sample: 600 } });
  assert.ok(one.lanes[0].isSecond);
  ports[1].onmessage({ data: { type: "done", play: 1, sample: 600 } });
  assert.equal(what("over").length, 0);
  ports[0].onmessage({ data: { type: "done", play: 2, sample: 600 } });
  assert.deepEqual([what("over")[0].sounds.map(({ samples }) => samples), socket.isClosed], [[600, 600], true]);
});

test("an error ends the race once", (t) => {
  const { race: one, what, socket } = race(t);
  one.text({ type: "error", utterance: 1, message: "hop n = 6 is more than window m = 3" });
  one.text({ type: "failed", utterance: 0, message: "later" });
  assert.deepEqual(
    what("failed").map(({ message }) => message),
    ["hop n = 6 is more than window m = 3"],
  );
  assert.ok(socket.isClosed);
});
