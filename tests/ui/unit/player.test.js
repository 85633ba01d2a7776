// The audio worklet, run block by block, and the page's clock.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PlaybackClock } from "../../../studio/ui/widgets/sound/clock.js";
import { TimeStretch } from "../../../studio/ui/widgets/sound/time_stretch.js";

const RATE_HZ = 24_000;
const BLOCK = 128;
const FRAME = 600; // samples in a packet, 25 ms

/** @type {any} */
const scope = globalThis;
let processor = null;
scope.sampleRate = RATE_HZ;
scope.currentFrame = 0;
scope.AudioWorkletProcessor = class {
  constructor() {
    this.port = { messages: [], postMessage: (message) => this.port.messages.push(message) };
  }
};
scope.registerProcessor = (_name, type) => {
  processor = type;
};
await import("../../../studio/ui/widgets/sound/player.worklet.js");

class Run {
  constructor({ prebuffer = 0, rebuffer = 0, gaps = [] } = {}) {
    scope.currentFrame = 0;
    this.player = new processor({ processorOptions: { ringSamples: 65_536, tap: false } });
    this.worker = { messages: [], postMessage: (message) => this.worker.messages.push(message) };
    this.player.port.onmessage({ data: { port: this.worker } });
    this.out = [];
    this.post({ type: "begin", gaps, prebuffer, rebuffer });
  }

  post(message) {
    this.worker.onmessage({ data: { play: 1, ...message } });
  }

  put(first, value = 16_384) {
    const { buffer } = new Int16Array(FRAME).fill(value);
    this.post({ type: "pcm", first, buffer, offset: 0, mark: -1 });
  }

  /** Render until `seconds` of the context. */
  render(seconds) {
    while (scope.currentFrame < seconds * RATE_HZ) {
      const block = new Float32Array(BLOCK);
      this.player.process([], [[block]]);
      this.out.push(...block);
      scope.currentFrame += BLOCK;
    }
  }

  messages(type) {
    return this.player.port.messages.filter((m) => m.type === type);
  }

  /** Times in seconds at which sound starts. */
  get starts() {
    return this.out.flatMap((value, k) => (value !== 0 && (k === 0 || this.out[k - 1] === 0) ? [k / RATE_HZ] : []));
  }

  count(value) {
    return this.out.filter((one) => one === value).length;
  }
}

const near = (value, expected, tolerance) =>
  assert.ok(Math.abs(value - expected) <= tolerance, `${value} is not within ${tolerance} of ${expected}`);

for (const [frames, heldS] of [
  [1, 0.06],
  [2, 0.06],
  [3, 0],
]) {
  test(`after a wait ${frames} frames start after ${heldS} s`, () => {
    const run = new Run({ prebuffer: 0.03 * RATE_HZ, rebuffer: 0.06 * RATE_HZ });
    run.put(0);
    run.render(0.2);
    for (let k = 0; k < frames; k++) run.put(FRAME * (k + 1));
    run.render(0.5);
    const [first, second] = run.starts;
    near(first, 0.03, (2 * BLOCK) / RATE_HZ);
    near(second - 0.2, heldS, (2 * BLOCK) / RATE_HZ);
  });
}

for (const cutFrame of [1, 4, 7]) {
  test(`a cut at frame ${cutFrame} of 10, while frame 4 plays, loses nothing of the replacement`, () => {
    const run = new Run();
    for (let k = 0; k < 10; k++) run.put(FRAME * k, 8192);
    run.render(0.1);
    run.post({ type: "cut", sample: cutFrame * FRAME });
    for (let k = 0; k < 5; k++) run.put((cutFrame + k) * FRAME, 16_384);
    run.post({ type: "final" });
    run.render(0.6);
    assert.equal(run.messages("fault").length, 0);
    assert.equal(Math.max(...run.messages("turn").map((m) => m.underruns)), 0);
    assert.deepEqual(
      run.messages("done").map((m) => m.sample),
      [(cutFrame + 5) * FRAME],
    );
    assert.ok(run.count(0.5) >= 5 * FRAME - 120 - BLOCK);
    near(run.count(0.25), Math.max(4, cutFrame) * FRAME, 256);
  });
}

test("a packet out of order or without room is a fault", () => {
  const run = new Run();
  run.put(0);
  run.put(2 * FRAME);
  const [fault] = run.messages("fault");
  assert.deepEqual([fault.first, fault.expected], [2 * FRAME, FRAME]);
});

test("replayed gaps have their length to the sample", () => {
  const run = new Run({ gaps: [[FRAME, 1000]] });
  run.put(0);
  run.put(FRAME);
  run.post({ type: "final" });
  run.render(0.2);
  const gap = run.messages("turn").find((m) => m.gap > 0);
  assert.deepEqual([gap.sample, gap.gap], [FRAME, 1000]);
  assert.equal(run.messages("done")[0].underruns, 0);
});

test("stop fades out within 5 ms and reports the last sample", () => {
  const run = new Run();
  for (let k = 0; k < 10; k++) run.put(FRAME * k);
  run.render(0.05);
  run.post({ type: "stop", atOnce: false });
  run.render(0.1);
  const [{ sample }] = run.messages("stopped");
  near(sample, 0.05 * RATE_HZ, 120 + BLOCK);
  const steps = run.out.map((value, k) => Math.abs(value - (run.out[k - 1] ?? value)));
  assert.ok(Math.max(...steps.slice(0.04 * RATE_HZ)) < 0.01, "no click");
});

test("messages of another play are ignored", () => {
  const run = new Run();
  run.post({ type: "pcm", play: 0, first: 0, buffer: new Int16Array(FRAME).fill(9).buffer, offset: 0, mark: -1 });
  run.render(0.1);
  assert.deepEqual(run.starts, []);
});

test("time-stretched speech has the same pitch and no clicks", () => {
  const ring = Float32Array.from({ length: 65_536 }, (_, k) => Math.sin((2 * Math.PI * 220 * k) / RATE_HZ));
  const stretch = new TimeStretch(ring, RATE_HZ);
  stretch.begin(0, 0.8);
  const out = [];
  for (let value = stretch.next(48_000); value !== undefined; value = stretch.next(48_000)) out.push(value);
  const crossings = out.filter((value, k) => k > 0 && out[k - 1] < 0 && value >= 0).length;
  const jump = Math.max(...out.slice(1).map((value, k) => Math.abs(value - out[k])));
  near(out.length / RATE_HZ, 2.485, 0.035);
  near((crossings * RATE_HZ) / out.length, 220, 4);
  assert.ok(jump < 0.09, "a sine of 220 Hz changes by at most 0.058 per sample");
  assert.equal(stretch.sample, 48_000);
});

function clock({ currentTime = 1, outputLatency = 0, state = "running", stamp = undefined } = {}) {
  const context = {
    state,
    currentTime,
    outputLatency,
    baseLatency: 0,
    sampleRate: RATE_HZ,
    getOutputTimestamp: () => stamp,
  };
  return { context, clock: new PlaybackClock(context) };
}

const turn = (more) => ({ play: 1, frame: 0, sample: 0, playing: true, rate: 1, over: false, ...more });

test("without a turn there is no position", () => assert.equal(clock().clock.position(), null));

test("the position is behind the player by the output latency", () => {
  const { clock: one } = clock({ currentTime: 1, outputLatency: 0.25 });
  one.turn(turn({ frame: 12_000 }));
  one.confirmed = { play: 1, sample: 12_000 };
  assert.equal(one.position().sample, 6000);
  assert.equal(one.latencyMs, 250);
});

test("the longer of two reported latencies counts", () => {
  const stamp = { performanceTime: performance.now(), contextTime: 0.5 };
  const { clock: one } = clock({ currentTime: 1, outputLatency: 0.1, stamp });
  near(one.latencyMs, 500, 50);
});

test("the position never passes what the player has confirmed, nor goes back in time", () => {
  const { clock: one, context } = clock({ currentTime: 1 });
  one.turn(turn());
  one.confirmed = { play: 1, sample: 10_000 };
  assert.equal(one.position().sample, 10_000);
  context.currentTime = 0.5;
  assert.equal(one.contextTime(), 1);
});

test("a pause stops the position at its sample", () => {
  const { clock: one } = clock({ currentTime: 2 });
  one.turn(turn());
  one.turn(turn({ frame: 24_000, sample: 24_000, playing: false }));
  const { sample, playing } = one.position();
  assert.deepEqual([sample, playing], [24_000, false]);
});

test("a slower rate moves the position slower", () => {
  const { clock: one } = clock({ currentTime: 1 });
  one.turn(turn({ rate: 0.8 }));
  one.confirmed = { play: 1, sample: 24_000 };
  assert.equal(one.position().sample, 19_200);
});

test("a suspended context holds its position", () => {
  const { clock: one, context } = clock({ currentTime: 1 });
  one.turn(turn());
  one.confirmed = { play: 1, sample: 1e6 };
  const before = one.position().sample;
  Object.assign(context, { state: "suspended", currentTime: 5 });
  assert.equal(one.position().sample, before);
});
