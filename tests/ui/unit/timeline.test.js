// Time axis, tiles and peaks of the Inspect and Compare pages, the bundle format, and annotation positions.

import assert from "node:assert/strict";
import { test } from "node:test";
import { TimeMap } from "../../../studio/ui/widgets/compare/timemap.js";
import { msAt, rowsOf, sampleNear, snapped, zeroNear } from "../../../studio/ui/widgets/inspect/annotate/positions.js";
import { Axis, clock } from "../../../studio/ui/widgets/timeline/axis.js";
import { fromBase64, parse } from "../../../studio/ui/widgets/timeline/bundle.js";
import { differencePicture, framesPicture, heardPicture, Peaks } from "../../../studio/ui/widgets/timeline/tiles.js";

const near = (value, expected, tolerance = 1e-6) =>
  assert.ok(Math.abs(value - expected) <= tolerance, `${value} is not ${expected}`);

test("the content fits with space for lane names and an end", () => {
  const axis = new Axis(0, 10_000, 1070);
  near(axis.x(0), 58, 0.1);
  near(axis.x(10_000), 1058, 0.2);
  near(axis.ms(axis.x(1234)), 1234);
});

test("zooming keeps the time under the pointer", () => {
  const axis = new Axis(0, 10_000, 1000);
  const at = axis.ms(300);
  axis.zoom(4, 300);
  near(axis.ms(300), at, 1e-3);
  near(axis.spanMs, (axis.endMs - axis.startMs) / 4, 1e-3);
});

test("zoom and pan are clamped to the content, and to 20 ms", () => {
  const axis = new Axis(0, 10_000, 1000);
  axis.zoom(0.1, 500);
  assert.deepEqual([axis.leftMs, axis.rightMs], [axis.startMs, axis.endMs]);
  axis.zoom(1e9, 500);
  near(axis.spanMs, 20);
  axis.pan(1e9);
  near(axis.rightMs, axis.endMs);
  axis.pan(-1e9);
  near(axis.leftMs, axis.startMs);
});

test("content shorter than 20 ms is shown whole", () => {
  const axis = new Axis(0, 5, 1000);
  axis.show(1, 2);
  near(axis.leftMs, axis.startMs);
  near(axis.rightMs, axis.endMs);
});

for (const [spanMs, stepMs, digits] of [
  [100, 10, 2],
  [1000, 100, 1],
  [10_000, 1000, 0],
  [3_600_000, 600_000, 0],
]) {
  test(`a ruler of ${spanMs} ms has ticks every ${stepMs} ms`, () => {
    const axis = new Axis(0, spanMs, 1000);
    const { times, digits: found } = axis.ticks();
    assert.equal(found, digits);
    assert.ok(times.length >= 2);
    assert.ok(times.every((ms, k) => ms % stepMs === 0 && (k === 0 || ms - times[k - 1] === stepMs)));
    assert.ok((times[1] - times[0]) * axis.pxPerMs >= 84, "labels do not overlap");
  });
}

for (const [ms, digits, text] of /** @type {[number, number, string][]} */ ([
  [12_345, 1, "12.3"],
  [0, 0, "0"],
  [65_000, 0, "1:05"],
  [65_250, 2, "1:05.25"],
  [-1500, 1, "−1.5"],
  [3_600_000, 0, "60:00"],
])) {
  test(`${ms} ms is ${text}`, () => assert.equal(clock(ms, digits), text));
}

test("a time map is linear between its knots, and shifts beyond them", () => {
  const map = new TimeMap({ axis: [0, 1, 3], own: [0, 2, 3] });
  assert.deepEqual(
    [-500, 0, 500, 1000, 2000, 3000, 4000].map((ms) => map.own(ms)),
    [-500, 0, 1000, 2000, 2500, 3000, 4000],
  );
  assert.deepEqual(
    [1000, 2500].map((ms) => map.axis(ms)),
    [500, 2000],
  );
  assert.equal(map.endMs, 3000);
});

test("of two equal knots the later one counts", () => {
  const map = new TimeMap({ axis: [0, 1, 1, 2], own: [0, 1, 5, 6] });
  assert.deepEqual([map.own(999), map.own(1000), map.own(2000)], [999, 5000, 6000]);
});

test("a bundle has a header and typed arrays", () => {
  const header = JSON.stringify({
    text: "é",
    arrays: [
      { name: "pcm", kind: "i16", at: 0, count: 2 },
      { name: "p", kind: "f32", at: 4, count: 1 },
    ],
  });
  const encoded = new TextEncoder().encode(header);
  const length = Math.ceil(encoded.length / 4) * 4; // the arrays are aligned
  const bytes = new Uint8Array(4 + length + 8).fill(32);
  bytes.set(encoded, 4);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, length, true);
  view.setInt16(4 + length, -7, true);
  view.setInt16(6 + length, 8, true);
  view.setFloat32(8 + length, 0.5, true);
  const parts = parse(fromBase64(Buffer.from(bytes).toString("base64")));
  assert.equal(parts.view.text, "é");
  assert.deepEqual([Array.from(parts.pcm), Array.from(parts.p)], [[-7, 8], [0.5]]);
});

test("peaks of any range are those of its samples", () => {
  const pcm = Int16Array.from({ length: 100_000 }, (_, k) => ((k * 7919) % 2000) - 1000);
  pcm[70_001] = 9000;
  const peaks = new Peaks(pcm);
  assert.deepEqual(peaks.of(10, 13), [Math.min(...pcm.slice(10, 13)), Math.max(...pcm.slice(10, 13))]);
  assert.equal(peaks.of(0, 100_000)[1], 9000);
  assert.equal(peaks.of(0, 64_000)[1] < 9000, true);
  assert.equal(peaks.of(69_000, 71_000)[1], 9000);
  assert.deepEqual(peaks.of(5, 5), [0, 0]);
});

/** Tiles whose canvas only records which columns were rendered. */
function tiles(picture) {
  picture.make = (level, number) => ({ level, number });
  const draw = (start, end, leftMs = 7) => {
    const drawn = [];
    const paint = new Proxy(
      {},
      {
        get: (_, name) => (name === "drawImage" ? (...values) => drawn.push(values) : () => {}),
        set: () => true,
      },
    );
    const isWhole = picture.draw(paint, start, end, 0, 1000, 0, 100, { leftMs });
    return { drawn, isWhole };
  };
  return draw;
}

test("a wider view uses coarser tiles", () => {
  const draw = tiles(framesPicture(new Uint8Array(80 * 100_000), 80, 16, 600));
  const levels = (samples) => new Set(draw(0, samples).drawn.map(([{ level }]) => level));
  assert.deepEqual(levels(600 * 500), new Set([1]));
  assert.deepEqual(levels(600 * 4000), new Set([4]));
});

test("without time left, coarser tiles stand in for missing ones", () => {
  const draw = tiles(framesPicture(new Uint8Array(80 * 4096), 80, 16, 600));
  assert.ok(draw(0, 600 * 4000).isWhole);
  const { drawn, isWhole } = draw(0, 600 * 500, 0);
  assert.equal(isWhole, false);
  assert.ok(drawn.length > 0 && drawn.every(([{ level }]) => level === 4));
  assert.ok(draw(0, 600 * 500).isWhole, "they are rendered in a later frame");
});

test("acoustic levels use the whole palette, differences are bytes", () => {
  const column = new Uint8Array(4);
  framesPicture(Uint8Array.from([0, 5, 10, 15]), 4, 16, 600).fill(0, column);
  assert.deepEqual(Array.from(column), [0, 85, 170, 255]);
  const rows = new Uint8Array(2);
  differencePicture(Uint8Array.from([1, 2, 128, 0]), 2, 10).fill(1, rows);
  assert.deepEqual(Array.from(rows), [128, 0]);
});

test("a spectrogram column of silence is dark, of a tone it is not", () => {
  const pcm = Int16Array.from({ length: 24_000 }, (_, k) => (k < 12_000 ? 0 : 9000 * Math.sin(k / 5)));
  const { fill } = heardPicture(pcm, 24_000);
  const brightest = (column) => {
    const bytes = new Uint8Array(96);
    fill(column, bytes);
    return Math.max(...bytes);
  };
  assert.ok(brightest(20) < 10 && brightest(100) > 150);
});

const SCENE = {
  rateHz: 1000,
  frameSamples: 25,
  pcm: Int16Array.from([5, 4, 3, -1, -2, -3, 4, 4, 4, 4]),
  line: {
    runs: [
      { start: 0, end: 100, t_ms: 50 },
      { start: 100, end: 300, t_ms: 400 },
    ],
  },
};

test("samples have the time of their run; an end belongs to the run before a pause", () => {
  assert.deepEqual([msAt(SCENE, 0), msAt(SCENE, 99), msAt(SCENE, 100), msAt(SCENE, 100, true)], [50, 149, 400, 150]);
});

test("a time in a pause is the last sample before it", () => {
  assert.deepEqual(
    [0, 60, 149, 300, 400, 9999].map((ms) => sampleNear(SCENE, ms)),
    [0, 10, 99, 100, 100, 300],
  );
});

test("edges snap to zero crossings or frames", () => {
  assert.equal(zeroNear(SCENE.pcm, 4, 5), 3);
  assert.equal(zeroNear(SCENE.pcm, 5, 5), 6);
  assert.equal(zeroNear(SCENE.pcm, 9, 2), 9, "too far away");
  assert.equal(snapped({ ...SCENE, pcm: new Int16Array(1000) }, 40, "frame"), 50);
  assert.equal(snapped(SCENE, 4, "zero crossing"), 3);
  assert.equal(snapped(SCENE, 4, "off"), 4);
});

test("overlapping marks are in different rows", () => {
  const mark = (start, end) => ({ start, end });
  const rows = rowsOf([mark(0, 10), mark(5, 8), mark(8, 12), mark(10, 10), mark(10, 20)]);
  assert.deepEqual(
    rows.map((row) => row.map(({ start }) => start)),
    [[0, 10], [5, 8], [10]],
  );
});
