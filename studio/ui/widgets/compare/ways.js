// Sets of variants to synthesize with one click, from the options in the voices' cards.

const MOST = 8;
const STEPS = 5; // values tried of a float option
const SEEDS = 4;

const addressOf = (voice, speaker) => `${voice.name}:${speaker}`;

/** Values to try of one option; empty where there is no choice. */
function valuesOf(option) {
  if (option.kind === "choice") return option.choices.slice(0, MOST);
  const { low, high } = option;
  if (low === null || high === null || high <= low) return [];
  const isWhole = option.kind === "int";
  const count = isWhole ? Math.min(MOST, high - low + 1) : STEPS;
  const values = Array.from({ length: count }, (_, k) => low + ((high - low) * k) / (count - 1));
  return values.map((value) => (isWhole ? Math.round(value) : Number(value.toFixed(3))));
}

/**
 * Sets of variants as {name, title, jobs}: all values of each option, all voices, a few seeds. With `isOverlapped` the
 * result is vocoded again with the overlapped vocoder.
 * `base`: common settings {voice, speaker, seed, temperature, options}.
 */
export function waysOf(voices, base) {
  const voice = voices.find(({ name }) => name === base.voice) ?? voices[0];
  const job = (label, more = {}) => ({
    label,
    rateHz: voice.sample_rate_hz,
    voice: addressOf(voice, base.speaker),
    seed: base.seed,
    temperature: base.temperature,
    options: base.options,
    ...more,
  });
  const ways = voice.options.map((option) => {
    const values = valuesOf(option);
    const jobs = values.map((value) => job(`${option.name} = ${value}`, { options: { ...base.options, [option.name]: value } }));
    const isRow = option.kind !== "choice" && values.length > 2;
    return { name: `${option.name} = ${isRow ? `${values[0]}..${values.at(-1)}` : values.join(", ")}`, title: option.label, jobs };
  });
  const pairs = voices.flatMap((one) => one.speakers.map((speaker) => [one, speaker]));
  const speaking = pairs.length <= MOST ? pairs : voices.slice(0, MOST).map((one) => [one, one.speakers[0]]);
  const everyone = speaking.map(([one, speaker]) => job(addressOf(one, speaker), { voice: addressOf(one, speaker), temperature: null, options: {}, rateHz: one.sample_rate_hz }));
  const families = new Set(voices.map(({ family }) => family)).size;
  ways.push({ name: `All voices (${everyone.length})`, title: families > 1 ? `of ${families} families` : "each with its default settings", jobs: everyone });
  const seeds = Array.from({ length: SEEDS }, (_, k) => job(`seed = ${base.seed + k}`, { seed: base.seed + k }));
  ways.push({ name: `seed = ${base.seed}..${base.seed + SEEDS - 1}`, title: "same settings, other random seeds", jobs: seeds });
  ways.push({ name: "Causal, overlapped vocoder", title: "the same frames with the causal vocoder, and with each segment vocoded separately and cross-faded", jobs: [job("as it is")], isOverlapped: true });
  ways.push({ name: "As it is", title: "once, with these settings", jobs: [job("as it is")] });
  return ways.filter(({ jobs, name, isOverlapped }) => jobs.length > 1 || isOverlapped || name === "As it is");
}
