// The history of the Live page: its limits, its rows, the recorded sound, and the store in memory.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  describe,
  entryOf,
  evicted,
  fileName,
  pagesOf,
  traceToken,
} from "../../../studio/ui/widgets/live/history/entries.js";
import { MemoryStore, openStore } from "../../../studio/ui/widgets/live/history/store.js";
import { recordingOf } from "../../../studio/ui/widgets/live/worker/recording.js";
import { Utterance } from "../../../studio/ui/widgets/live/worker/utterance.js";
import { copyAsHeard, silentWav } from "../../../studio/ui/widgets/sound/recording.js";

const RATE_HZ = 24_000;
const SETTINGS = { voice: "tone:low", seed: 7, temperature: null, options: { m: 3 } };

const entry = (id, bytes = 10) => ({ id, bytes });
const ids = (count) => Array.from({ length: count }, (_, k) => k + 1);

test("the oldest entries go when there are more than twenty, or too many bytes; the newest stays", () => {
  assert.deepEqual(evicted(ids(20).map((id) => entry(id))), []);
  assert.deepEqual(evicted(ids(22).map((id) => entry(id))), [1, 2]);
  const limits = { entries: 20, bytes: 25 };
  assert.deepEqual(
    evicted(
      ids(4).map((id) => entry(id)),
      limits,
    ),
    [1, 2],
  );
  assert.deepEqual(evicted([entry(1), entry(2, 1000)], limits), [1]);
  assert.deepEqual(evicted([], limits), []);
});

function utterance(mode = "keyboard") {
  const u = new Utterance(5, "keyboard", RATE_HZ);
  Object.assign(u, { mode, settings: SETTINGS });
  u.typed.edit(0, 0, "a cat", 1);
  for (const first of [0, 100, 200]) u.packet({ first, pcm: new Int16Array(100).fill(1 + first) });
  return u;
}

const samplesOf = ({ wav }) => Array.from(new Int16Array(wav, 44, new DataView(wav).getUint32(40, true) / 2));
const runs = (list) =>
  list.reduce((out, value) => {
    if (out.at(-1)?.[0] === value) out.at(-1)[1]++;
    else out.push([value, 1]);
    return out;
  }, []);

test("a recording has the text, the settings and the sound with its gaps", () => {
  const u = utterance();
  u.gap(100, 50);
  u.gap(250, 20);
  const one = recordingOf(u);
  assert.deepEqual(runs(samplesOf(one)), [
    [1, 100],
    [0, 50],
    [101, 100],
    [201, 50],
    [0, 20],
    [201, 50],
  ]);
  assert.equal(one.text, "a cat");
  assert.equal(one.utterance, 5);
  assert.deepEqual(one.settings, SETTINGS);
  assert.equal(one.seconds, 370 / RATE_HZ);
});

test("a stopped utterance is recorded up to the stop, and nothing that was not heard", () => {
  const u = utterance();
  u.gap(100, 50);
  u.gap(250, 20);
  assert.deepEqual(runs(samplesOf(recordingOf(u, 120))), [
    [1, 100],
    [0, 50],
    [101, 20],
  ]);
  assert.equal(recordingOf(u, 0), null);
  assert.equal(recordingOf(new Utterance(1, "keyboard", RATE_HZ)), null);
  assert.equal(recordingOf(utterance("sample")), null);
});

test("a recording too large with its gaps has none", () => {
  const u = utterance();
  u.gap(100, 20_000_000);
  assert.equal(samplesOf(recordingOf(u)).length, 300);
});

test("a WAV file names its rate and its length", () => {
  const { bytes, pcm } = silentWav(3, 16_000);
  copyAsHeard([{ first: 0, data: Int16Array.of(1, -2, 3) }], [], pcm);
  const head = new DataView(bytes);
  assert.equal(String.fromCharCode(...new Uint8Array(bytes, 0, 4)), "RIFF");
  assert.equal(head.getUint32(4, true), bytes.byteLength - 8);
  assert.equal(head.getUint32(24, true), 16_000);
  assert.equal(head.getUint32(40, true), 6);
  assert.deepEqual([...new Int16Array(bytes, 44)], [1, -2, 3]);
});

test("a WAV file may have a comment behind its samples", () => {
  for (const comment of ["odd", "even", "Zoë"]) {
    const { bytes, pcm } = silentWav(3, 16_000, comment);
    assert.equal(pcm.length, 3);
    const head = new DataView(bytes);
    assert.equal(head.getUint32(4, true), bytes.byteLength - 8);
    assert.equal(head.getUint32(40, true), 6);
    const after = new TextDecoder().decode(new Uint8Array(bytes, 50));
    assert.match(after, new RegExp(`^LIST.{4}INFOICMT.{4}${comment}\\0{1,2}$`, "s"));
    assert.equal(head.getUint32(54, true), bytes.byteLength - 58);
  }
});

test("a row says when, which voice and how long; its links carry the settings", () => {
  const one = entryOf(
    { mode: "old", text: "a cat", settings: SETTINGS, seconds: 1.25, wav: new ArrayBuffer(90) },
    Date.UTC(2026, 0, 2, 12),
    traceToken("traces/abc-_1.trace"),
  );
  assert.equal(one.bytes, 100);
  assert.match(describe(one, Date.UTC(2026, 0, 2, 12)), /^[^,]+ · Tone: Low · 1\.3 s · by sentences$/);
  assert.match(describe(one, Date.UTC(2026, 5, 2)), /2.*, .* · Tone: Low/);
  assert.deepEqual(pagesOf(one), {
    inspect: "inspect?trace=abc-_1",
    compare: "compare?trace=abc-_1&voice=tone&speaker=low&seed=7&m=3",
  });
  assert.equal(pagesOf({ ...one, trace: "" }), null);
  assert.equal(traceToken(undefined), "");
  assert.equal(traceToken("traces/../x.trace"), "");
});

test("a file is named after the first words", () => {
  assert.equal(fileName("It's a cat/../. And on"), "it-s-a-cat-and-on.wav");
  assert.equal(fileName("?!"), "speech.wav");
  assert.ok(fileName("word ".repeat(99)).length < 50);
  assert.ok(fileName("w".repeat(999)).length < 50);
});

test("without a database the history lasts for the visit, within the same limits", async () => {
  const store = await openStore(); // Node has no IndexedDB
  assert.ok(store instanceof MemoryStore);
  assert.equal(store.isLasting, false);
  const added = [];
  for (let k = 0; k < 21; k++) added.push(await store.add({ bytes: 1, trace: "" }, new ArrayBuffer(k)));
  const list = await store.list();
  assert.deepEqual(
    list.map(({ id }) => id),
    added.slice(1),
  );
  assert.equal(await store.sound(added[0]), undefined);
  assert.equal((await store.sound(added[20])).byteLength, 20);
  await store.update({ ...list[0], trace: "t" });
  await store.update({ id: added[0], trace: "gone" });
  assert.deepEqual((await store.list()).map(({ trace }) => trace).filter(Boolean), ["t"]);
  await store.clear();
  assert.deepEqual(await store.list(), []);
});
