// Shared links, and the utterance that one plays.

import assert from "node:assert/strict";
import { test } from "node:test";
import { laneOf } from "../../../studio/ui/widgets/live/utterance_clip.js";
import { Session } from "../../../studio/ui/widgets/live/worker/session.js";
import { loadShared } from "../../../studio/ui/widgets/live/worker/shared.js";
import { shownAddress } from "../../../studio/ui/widgets/share/brand.js";
import { embedHtml } from "../../../studio/ui/widgets/share/embed.js";
import { sharedAddress } from "../../../studio/ui/widgets/share/shared.js";
import { fakeSockets } from "./fakes.js";

const RATE_HZ = 24_000;
const TOKEN = "abcdefghijklmnopqrst-_";

test("a link names the trace that it plays; an invalid token is left out", () => {
  const address = "http://x/studio/?text=a+cat&m=3";
  assert.equal(sharedAddress(address, TOKEN), `${address}&heard=${TOKEN}`);
  assert.equal(sharedAddress(`${address}&heard=${TOKEN}`, ""), address);
  assert.equal(sharedAddress(address, "../../etc/passwd"), address);
});

test("a picture shows the address without scheme, settings and key", () => {
  assert.equal(shownAddress(new URL("http://127.0.0.1:7860/?text=a&key=secret")), "127.0.0.1:7860");
  assert.equal(shownAddress(new URL("https://x.org/studio/?m=3")), "x.org/studio");
});

function load(t, over = {}) {
  fakeSockets(t);
  const posted = [];
  const outbox = { add: (message) => posted.push(message), flush() {} };
  const session = new Session("ws://x", (message) => posted.push(message), outbox);
  const port = { messages: [], postMessage: (message) => port.messages.push(message), onmessage: null };
  session.feed.connect(port, RATE_HZ);
  const timeline = {
    rate_hz: RATE_HZ,
    text: "a cat",
    runs: [
      { t_ms: 0, start: 0, end: 2400 },
      { t_ms: 600, start: 2400, end: 6000 },
    ],
    pauses: [{ start_ms: 100, end_ms: 600, sample: 2400, reason: "text" }],
    words: [
      { i: 0, text: "a", char_start: 0, char_end: 1, source: "eos", start: 0, end: 2400 },
      { i: 1, text: "cat", char_start: 2, char_end: 5, source: "eos", start: 2400, end: null },
    ],
    segments: [{ start: 0, end: 2400, forced: false, p_eos: 0.9 }],
  };
  const pcm = new Int16Array(9000).fill(7); // stopped at 6000
  const urls = { trace_url: "traces/x.trace", wav_url: "traces/x.wav" };
  if (over.phase) session.phase = over.phase;
  loadShared(session, { timeline, pcm, urls });
  return { session, posted, port };
}

test("a stored utterance is replayed as it was heard, without the server", (t) => {
  const { session, posted, port } = load(t);
  assert.deepEqual(
    [session.last.samples, session.last.gaps],
    [6000, [{ sample: 2400, reason: "text", frames: 12_000 }]],
  );
  const kinds = posted.map(({ type }) => type).filter((type) => type !== "columns");
  assert.deepEqual(kinds, [
    ...["begin", "text", "committed", "committed", "word_start", "word_end", "word_start", "segment", "eos", "gap"],
    ...["phase", "trace"],
  ]);
  session.replay();
  assert.equal(session.phase, "replay");
  const begin = port.messages.find(({ type }) => type === "begin");
  assert.deepEqual(begin.gaps, [[2400, 12_000]]);
  const sound = port.messages.filter(({ type }) => type === "pcm");
  assert.equal(
    sound.reduce((sum, { buffer }) => sum + buffer.byteLength / 2, 0),
    6000,
  );
});

test("a stored utterance does not interrupt speech", (t) => {
  const { session, posted } = load(t, { phase: "open" });
  assert.deepEqual([session.last, posted], [null, []]);
});

test("a clip has the keys, words and levels of the utterance on one clock", () => {
  const word = (i, text, char_start, heard_ms) => ({
    ...{ i, text, char_start, char_end: char_start + text.length, heard_ms },
    heard_whole_ms: heard_ms === null ? null : heard_ms + 90,
  });
  const timeline = {
    rate_hz: RATE_HZ,
    text: "a cat ran",
    keys: [
      { t_ms: 100, char_start: 0, text: "a ", is_kept: true },
      { t_ms: 150, char_start: 2, text: "x", is_kept: false },
      { t_ms: 200, char_start: 2, text: "cat ran", is_kept: true },
    ],
    words: [word(0, "a", 0, 500), word(1, "cat", 2, 700), word(2, "ran", 6, null)],
    runs: [
      { t_ms: 500, start: 0, end: 2400 },
      { t_ms: 700, start: 2400, end: 4800 },
    ],
  };
  const pcm = new Int16Array(4800).fill(16_384);
  const { record, startMs } = laneOf({ timeline, pcm }, "Tone");
  assert.equal(startMs, 400);
  assert.equal(record.keys.map(({ text }) => text).join(""), "a cat ran");
  assert.deepEqual([record.keys[0].tMs, record.keys[8].tMs, record.endMs], [0, 100, 700]);
  const [lane] = record.lanes;
  assert.deepEqual(lane.lit, [
    [400, 490],
    [600, 690],
  ]);
  assert.equal(lane.firstMs, 400);
  const sounding = lane.levels.flatMap((level, bucket) => (level > 0 ? [bucket] : []));
  assert.deepEqual(sounding, [20, 21, 22, 23, 24, 30, 31, 32, 33, 34]);
});

test("HTML for another page has the sound in it, and its text is no markup", () => {
  const bytes = Uint8Array.from({ length: 100_000 }, (_, k) => k % 251);
  const html = embedHtml(bytes.buffer, ' <script>"a" & b ');
  const [, sound] = /base64,([^"]*)"/.exec(html);
  assert.deepEqual(Uint8Array.from(Buffer.from(sound, "base64")), bytes);
  assert.ok(html.endsWith("<figcaption>&lt;script&gt;&quot;a&quot; &amp; b</figcaption></figure>\n"));
});
