// The Worker of the Live page: a session with a socket and a player played by the test.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../../studio/ui/widgets/live/worker/session.js";
import { fakeSockets, packet } from "./fakes.js";

const RATE_HZ = 24_000;
const SETTINGS = { voice: "tone:low", seed: 0, temperature: null, options: { m: 3 } };

function start(t, { isOpen = true, settings = SETTINGS } = {}) {
  const Fake = fakeSockets(t);
  const posted = [];
  const outbox = { add: (message) => posted.push(message), flush() {} };
  const session = new Session("ws://x", (message) => posted.push(message), outbox);
  const port = { messages: [], postMessage: (message) => port.messages.push(message), onmessage: null };
  session.feed.connect(port, RATE_HZ);
  const socket = Fake.last;
  if (isOpen) socket.accept();
  if (settings) session.change(settings, RATE_HZ);
  const server = (message) => session.connection.text({ utterance: session.current?.id, ...message });
  const player = (message) => port.onmessage({ data: { play: session.feed.play, date: Date.now(), ...message } });
  const type = (text, at = 0, remove = 0) => session.edit({ at, remove, insert: text, tMs: 1 });
  const sent = (...types) => socket.sent.filter((m) => !types.length || types.includes(m.type));
  const kinds = (kind) => posted.filter((m) => m.type === kind);
  return { session, socket, posted, port, server, player, type, sent, kinds, Fake };
}

/** A word that the server commits and speaks, as samples. */
function speak({ server, session }, i, word, from) {
  server({ type: "committed", i, word, char_start: from, char_end: from + word.length });
  server({ type: "segment", seen: [i], words: [i], sample: i * 600 });
  session.connection.packet(
    packet({ utterance: session.current.id, first: i * 600, samples: new Array(600).fill(9000) }),
  );
  server({ type: "word_start", i, sample: i * 600 });
  server({ type: "word_end", i, sample: (i + 1) * 600 });
}

test("a text typed and finished before the voices are known is spoken with the first settings", (t) => {
  const { session, type, sent } = start(t, { settings: null });
  type("early words");
  session.finish();
  assert.deepEqual(sent(), []);
  session.change({ ...SETTINGS, voice: "tone:high" }, RATE_HZ);
  assert.deepEqual(
    sent().map((m) => [m.type, m.voice ?? m.insert ?? ""]),
    [
      ["open", "tone:high"],
      ["edit", "early words"],
      ["end", ""],
    ],
  );
});

test("text typed before the socket is open is sent when it opens", (t) => {
  const { type, socket, sent, session } = start(t, { isOpen: false });
  type("one ");
  assert.equal(session.phase, "waiting");
  socket.accept();
  assert.deepEqual(
    sent().map((m) => m.type),
    ["open", "edit"],
  );
});

test("a busy server is tried again after its delay, with the whole text", (t) => {
  const { type, server, sent, session } = start(t);
  type("one ");
  type("two ", 4);
  server({ type: "error", code: "busy", message: "all taken", retry_ms: 700 });
  assert.equal(session.phase, "waiting");
  t.mock.timers.tick(699);
  assert.equal(sent("open").length, 1);
  t.mock.timers.tick(1);
  assert.equal(sent("open").length, 2);
  assert.equal(sent("edit").at(-1).insert, "one two ");
});

test("a stopped text is not tried again if the server was busy", (t) => {
  const { type, session, server, kinds } = start(t);
  type("two words");
  session.setPhase("stopping");
  server({ type: "error", code: "busy", message: "all taken", retry_ms: 1 });
  assert.deepEqual([session.phase, session.retry, kinds("error")], ["idle", null, []]);
});

test("the queue position is reported, and the latency excludes the wait", (t) => {
  const { type, server, kinds, session } = start(t);
  type("one ");
  server({ type: "queued", ahead: 2 });
  server({ type: "queued", ahead: 0 });
  server({ type: "ready" });
  assert.deepEqual(
    kinds("queue").map((m) => m.ahead),
    [2, 0, null],
  );
  assert.equal(session.current.closing.cause, "queue");
});

test("an utterance that fails in the queue leaves its text for Speak", (t) => {
  const { type, server, kinds, session, sent } = start(t);
  type("one ");
  server({ type: "queued", ahead: 2 });
  server({ type: "failed", message: "no slot in 5 s" });
  assert.equal(session.phase, "idle");
  const [{ message, values }] = kinds("error");
  assert.match(message, /^\{reason\}\. Your text is stored/);
  assert.deepEqual(values, { reason: "no slot in 5 s" });
  session.speakAll({ tMs: 2 });
  assert.equal(sent("edit").at(-1).insert, "one ");
});

test("incompatible settings keep the text until they change", (t) => {
  const { type, server, session, sent, kinds } = start(t);
  type("one ");
  server({ type: "error", code: "bad_option", message: "n is more than m" });
  assert.deepEqual([session.phase, kinds("error").length], ["idle", 1]);
  session.change({ ...SETTINGS, options: { m: 2 } }, RATE_HZ);
  type("two ", 4);
  assert.equal(sent("open").at(-1).options.m, 2);
  assert.equal(sent("edit").at(-1).insert, "one two ");
});

test("errors of earlier utterances are ignored", (t) => {
  const { type, session, posted } = start(t);
  type("one ");
  const count = posted.length;
  session.connection.text({ type: "error", code: "closed", utterance: 99 });
  assert.equal(posted.length, count);
});

test("settings are sent to a running utterance only when they affect it", (t) => {
  const { type, session, sent } = start(t);
  type("one ");
  session.change({ ...SETTINGS, voice: "tone:high" }, RATE_HZ);
  assert.deepEqual(sent("options"), []);
  session.change({ ...SETTINGS, options: { m: 1 } }, RATE_HZ);
  assert.deepEqual(sent("options")[0].options, { m: 1 });
});

test("an edit of unsent text is not sent; an edit of sent text is", (t) => {
  const { type, sent } = start(t);
  type("x".repeat(4000));
  assert.equal(sent("edit")[0].insert.length, 3000);
  type("y", 3500, 1);
  assert.equal(sent("edit").length, 1);
  t.mock.timers.tick(250);
  assert.equal(sent("edit")[1].insert, "x".repeat(400));
  type("z", 10, 1);
  assert.deepEqual([sent("edit")[2].at, sent("edit")[2].remove, sent("edit")[2].insert], [10, 1, "z"]);
  for (let k = 0; k < 4; k++) t.mock.timers.tick(250);
  const text = sent("edit").reduce(
    (all, { at, remove, insert }) => all.slice(0, at) + insert + all.slice(at + remove),
    "",
  );
  assert.deepEqual(
    text
      .match(/(x+)z(x+)y(x+)/)
      .slice(1)
      .map((run) => run.length),
    [10, 3489, 499],
  );
});

test("the end of a long text follows its last piece", (t) => {
  const { type, sent, session } = start(t);
  type("x".repeat(3300));
  session.finish();
  assert.deepEqual(sent("end"), []);
  t.mock.timers.tick(250);
  assert.deepEqual(
    sent()
      .slice(-2)
      .map((m) => m.type),
    ["edit", "end"],
  );
});

test("an edit of spoken text is only noted; text behind it begins a new utterance after the end", (t) => {
  const { type, server, player, session, sent, kinds } = start(t);
  type("one ");
  speak({ server, session }, 0, "one", 0);
  session.finish();
  type("two ", 4);
  assert.equal(sent("open").length, 1);
  server({ type: "ended", compute_ms: 10 });
  player({ type: "done", sample: 600 });
  assert.deepEqual([session.phase, sent("open").length, sent("edit").at(-1).insert], ["open", 2, "two "]);
  type("x", 0, 1);
  assert.deepEqual(
    kinds("note").map((m) => m.code),
    ["already_said"],
  );
});

test("an edit inside a finished text that is still being spoken is sent", (t) => {
  const { type, session, sent } = start(t);
  type("one two three");
  session.finish();
  type("TWO", 4, 3);
  const { at, remove, insert } = sent("edit").at(-1);
  assert.deepEqual([at, remove, insert], [4, 3, "TWO"]);
});

test("Stop fades out, then cancels at the played sample, and drops what was queued", (t) => {
  const { type, server, session, sent, player, port } = start(t);
  type("one two ");
  speak({ server, session }, 0, "one", 0);
  session.sample({ text: "next" });
  session.stop();
  assert.equal(port.messages.at(-1).type, "stop");
  player({ type: "stopped", sample: 300 });
  assert.equal(sent("cancel")[0].played_sample, 300);
  server({ type: "cancelled", heard: [0], sample: 300 });
  server({ type: "ended", compute_ms: 1 });
  assert.deepEqual([session.phase, sent("open").length], ["idle", 1]);
});

test("a lost connection offers the text from the first word without its sound", (t) => {
  const { type, server, session, sent, socket, player, kinds, Fake } = start(t);
  type("one two three ");
  server({ type: "text", text: "one two three ", char_start: 0 });
  for (const [i, word] of ["one", "two", "three"].entries()) {
    server({ type: "committed", i, word, char_start: 4 * i, char_end: 4 * i + word.length });
  }
  speak({ server, session }, 0, "one", 0);
  socket.drop();
  assert.deepEqual(kinds("cutoff"), [{ type: "cutoff", hasRest: true }]);
  player({ type: "done", sample: 600 });
  assert.equal(session.phase, "idle");
  t.mock.timers.tick(400);
  Fake.last.accept();
  session.speakRest();
  assert.deepEqual(
    Fake.last.sent.map((m) => m.insert ?? m.type),
    ["open", "two three "],
  );
  assert.equal(sent("open").length, 1);
});

test("a race stores waiting text and offers it", (t) => {
  const { type, server, session, sent, kinds } = start(t);
  type("one ");
  server({ type: "queued", ahead: 1 });
  session.stopAndStore({ suspended: false });
  assert.equal(kinds("rest").length, 1);
  server({ type: "ended", compute_ms: 0 });
  assert.equal(session.phase, "idle");
  session.speakRest();
  assert.equal(sent("edit").at(-1).insert, "one ");
});

test("an utterance ends after 30 s without typing", (t) => {
  const { type, server, sent, session, kinds } = start(t);
  type("one ");
  server({ type: "ready" });
  session.keyboard.inputMs -= 29_000;
  t.mock.timers.tick(100);
  assert.deepEqual(sent("end"), []);
  session.keyboard.inputMs -= 2000;
  t.mock.timers.tick(100);
  assert.equal(sent("end").length, 1);
  assert.equal(kinds("note").at(-1).code, "idle_end");
});

test("packets of an old take or another utterance are dropped", (t) => {
  const { type, server, session } = start(t);
  type("one ");
  speak({ server, session }, 0, "one", 0);
  server({ type: "revised", take: 1, words: 0, from_sample: 300 });
  assert.equal(session.current.samples, 300);
  for (const more of [
    { utterance: 1, take: 0 },
    { utterance: 9, take: 1 },
  ]) {
    session.connection.packet(packet({ ...more, first: 300, samples: [1, 2] }));
  }
  assert.equal(session.current.samples, 300);
  session.connection.packet(packet({ utterance: 1, take: 1, first: 300, samples: [1, 2] }));
  assert.equal(session.current.samples, 302);
});
