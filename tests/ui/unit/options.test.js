// Options of voices, code to copy, and variants to compare.

import assert from "node:assert/strict";
import { test } from "node:test";
import { variantSets } from "../../../studio/ui/widgets/compare/synthesis_form.js";
import { Terms } from "../../../studio/ui/widgets/glossary/tips.js";
import { asCurl, asPython } from "../../../studio/ui/widgets/live/actions.js";
import { displayName, parseOption, voiceName } from "../../../studio/ui/widgets/options/option_controls.js";

const M = { name: "m", kind: "int", label: "Window", low: 1, high: 6, default: 3, choices: [] };
const SPEED = { name: "speed", kind: "float", label: "Speed", low: 0.5, high: 1.5, default: 1, choices: [] };
const SCHEME = { name: "scheme", kind: "choice", label: "Scheme", default: "S1", choices: ["S1", "S2"] };

for (const [option, text, value] of /** @type {any[][]} */ ([
  [M, "2", 2],
  [M, "2.5", undefined],
  [M, "0", undefined],
  [M, "7", undefined],
  [M, "x", undefined],
  [M, "", undefined],
  [M, undefined, undefined],
  [SPEED, "0.75", 0.75],
  [SPEED, "2", undefined],
  [SCHEME, "S2", "S2"],
  [SCHEME, "s2", undefined],
])) {
  test(`option ${option.name} from ${text} is ${value}`, () => assert.equal(parseOption(option, text), value));
}

test("names of voices and speakers as shown", () => {
  assert.equal(displayName("anna_maria-b"), "Anna Maria B");
  assert.equal(displayName("élise"), "Élise");
  assert.equal(voiceName({ name: "wren", title: "" }), "Wren");
  assert.equal(voiceName({ name: "tone", title: "Tone (no model): a test" }), "Tone (no model)");
});

test("Python code quotes texts and leaves out an unset temperature", () => {
  const code = asPython({
    text: 'say "so"\n',
    voice: "tone:low",
    seed: 7,
    temperature: null,
    options: { m: 3, scheme: "S1" },
  });
  assert.ok(code.includes(String.raw`    "say \"so\"\n",`));
  assert.ok(code.includes('    voice="tone:low",\n    seed=7,\n    m=3,\n    scheme="S1",\n'));
  assert.ok(!code.includes("temperature"));
  assert.ok(asPython({ text: "", voice: "a", seed: 0, temperature: 0, options: {} }).includes("temperature=0,"));
  const fast = { text: "", voice: "a", seed: 0, temperature: null, speed: 1.5, options: {} };
  assert.ok(asPython(fast).includes("speed=1.5,") && !code.includes("speed"));
});

test("a curl command quotes its address for the shell", () => {
  assert.equal(asCurl("http://x/it's.wav"), `curl -o speech.wav 'http://x/it'\\''s.wav'`);
});

const voice = (name, speakers, more = {}) => ({
  name,
  speakers,
  family: "t5",
  sample_rate_hz: 24_000,
  options: [M, SCHEME],
  ...more,
});
const BASE = { voice: "wren", speaker: "a", seed: 5, temperature: 0.7, options: { m: 2 } };

test("variants: all values of each option, all voices, four seeds", () => {
  const sets = variantSets([voice("wren", ["a", "b"]), voice("finch", ["c"], { sample_rate_hz: 16_000 })], BASE);
  assert.deepEqual(
    sets.map(({ name, jobs }) => [name, jobs.length]),
    [
      ["Window 1 to 6", 6],
      ["Both schemes", 2],
      ["All voices (3)", 3],
      ["4 variations", 4],
      ["Both vocoders", 1],
      ["Current settings", 1],
    ],
  );
  assert.deepEqual(sets[0].jobs[5].options, { m: 6 });
  assert.deepEqual(sets[1].jobs[0].options, { m: 2, scheme: "S1" });
  const [, , finch] = sets[2].jobs;
  assert.deepEqual([finch.voice, finch.rateHz, finch.options, finch.temperature], ["finch:c", 16_000, {}, null]);
  assert.ok(sets[3].jobs.every((job, k) => job.seed === 5 + k && job.temperature === 0.7));
  assert.ok(sets[4].isOverlapped);
});

test("variants have the plain names of the glossary", () => {
  const terms = new Terms([{ id: "look-ahead", name: "Look-ahead", options: { m: "words read" } }]);
  const [one, other] = variantSets([voice("wren", ["a", "b"])], BASE, terms);
  assert.deepEqual(
    [one.name, one.title, other.name],
    ["Look-ahead 1 to 6", "Window (m): 1, 2, 3, 4, 5, 6", "Both schemes"],
  );
});

test("at most eight variants, and none of an option with one value", () => {
  const wide = { ...M, low: 1, high: 40 };
  const fixed = { ...M, name: "k", low: 2, high: 2 };
  const [one] = variantSets([voice("wren", ["a"], { options: [wide, fixed] })], BASE);
  assert.deepEqual([one.name, one.jobs.length], ["Window 1 to 40", 8]);
  const many = Array.from({ length: 9 }, (_, k) => voice(`v${k}`, ["a", "b"], { options: [] }));
  const all = variantSets(many, { ...BASE, voice: "v0" })[0];
  assert.deepEqual([all.jobs.length, all.jobs[7].voice], [8, "v7:a"]);
});
