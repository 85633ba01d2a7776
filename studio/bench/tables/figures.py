"""Measurements of a paper's rows, the paper's figures beside ours, and whether its claims hold here; as tables."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from functools import cached_property
from statistics import mean
from typing import Any

from studio.bench.evaluation.wer import resynthesised, score
from studio.bench.material import EvaluationRun
from studio.bench.settings import LoadSetting
from studio.bench.speed.cascade import CascadeSetting, cascade, evenly
from studio.bench.speed.load import bench_queries
from studio.bench.tables.definition import FIGURES, Claim, Part, Row
from studio.core.options import merge_options
from studio.measure.recognisers.base import Sound
from studio.measure.report import console, print_table, recogniser_name
from studio.measure.statistics import BootstrapInterval
from studio.measure.wer import WordErrors, bootstrap_difference, bootstrap_rate, corpus_errors

_TITLES = {
    "wer": "WER",
    "first_ms": "first audio, ms",
    "last_ms": "last audio, ms",
    "e2e_ms": "question to first sound, ms",
    "llm_ms": "of which language model, ms",
}
Rows = Mapping[str, Sequence[Mapping[str, Any]]]  # measurements of each row, one per seed
# Verdicts as stored in bench/results, and the words that tables show where they differ.
HOLDS, TURNED, UNSURE, OPEN = "as in the paper", "the other way round", "not told apart", "not measured"
_VERDICTS = {TURNED: "opposite", UNSURE: "inconclusive"}


def show(out: Mapping[str, Any]) -> None:
    """Print the tables, fresh or read back from bench/results."""
    for part in out["parts"]:
        is_heard = part["measure"] == "wer"
        figures = [*FIGURES[part["measure"]]]
        printed = {figure for row in part["rows"] for figure in row["paper"]}
        pairs = [(one, who) for one in figures for who in ("paper", "ours") if who == "ours" or one in printed]
        columns = ["", *(f"{who}: {_TITLES.get(one, one.replace('_', ' '))}" for one, who in pairs)]
        if is_heard:
            columns.append("95%" if out["seeds"] == 1 else f"95%, and each of {out['seeds']} seeds")
        rows = []
        for row in part["rows"]:
            ours = {name: one.get("value") for name, one in row["ours"].items()}
            both = {"paper": row["paper"], "ours": ours}
            cells = [_written(figure, both[who].get(figure)) for figure, who in pairs]
            rows.append([row["name"], *cells, *([_spread(row["ours"])] if is_heard else [])])
        recogniser = f", transcribed by {recogniser_name(out)}" if is_heard and "recogniser" in out else ""
        otherwise = f" Measured differently: {part['differs']}." if part["differs"] else ""
        share = out.get("rate_share", 1.0) if part["measure"] == "queries" else 1.0
        slower = f" Queries arrived at {share:g} times the rate that the table names." if share != 1.0 else ""
        note = f"Ours: {out['count']} texts of {out['texts']}{recogniser}.{otherwise}{slower}"
        print_table(f"{part['place']} of paper {out['paper']}: {out['title']}", columns, rows, note)
        _show_claims(part)


def show_plan(plan: Mapping[str, Any]) -> None:
    """Print what a run would train and measure, and its missing inputs."""
    nets = [(name, one["family"], one["steps"], one["seed"], one["begins_from"]) for name, one in plan["nets"].items()]
    print_table(f"Nets of paper {plan['paper']}: {plan['title']}", ("", "family", "steps", "seed", "starts from"), nets)
    print_table("Rows", ("part", "row", "measured of"), plan["rows"])
    for one in plan["lacking"]:
        console().print(f"Missing: {one}", highlight=False, markup=False)


def _show_claims(part: Mapping[str, Any]) -> None:
    if not part["claims"]:
        return
    rows = []
    for one in part["claims"]:
        gain = one["gain"]
        gain_text = "" if gain is None else f"{gain['value']:+.3f} ({_span(gain)})"
        rows.append([one["says"], f"{one['paper']:+.3f}", gain_text, judged(one)])
    note = "gain of the row that the paper calls better; an interval that contains 0 is inconclusive"
    print_table(f"Claims of {part['place']}", ("", "paper", "ours (95%)", "ours is"), rows, note)
    for sentence in contradicted_claims(part):
        console().print(sentence, highlight=False, markup=False)


def judged(one: Mapping[str, Any]) -> str:
    """A verdict, marked if it compares single runs."""
    is_once = one["holds"] in (HOLDS, TURNED) and one["gain"]["low"] == one["gain"]["high"]
    label = _VERDICTS.get(one["holds"], one["holds"])
    return f"{label}, in one run" if is_once else label


def _span(gain: Mapping[str, float]) -> str:
    """The interval of a gain; single runs have none."""
    low, high = gain["low"], gain["high"]
    return "one run each" if low == high else f"{low:+.3f} to {high:+.3f}"


def contradicted_claims(part: Mapping[str, Any]) -> list[str]:
    """Sentences for the claims that our figures contradict."""
    return [
        f"Ours disagrees: {one['says']} In the paper {one['better']} is better than {one['worse']} by "
        f"{one['paper']:.3f}, here it is worse by {-one['gain']['value']:.3f}."
        for one in part["claims"]
        if one["holds"] == TURNED
    ]


def _written(figure: str, value: float | None) -> object:
    return f"{value:.0f}" if figure.endswith("_ms") and value is not None else value


def _spread(ours: Mapping[str, Any]) -> str:
    if not ours:
        return ""
    wer = ours["wer"]
    seeds = f"; {', '.join(f'{one:.3f}' for one in wer['seeds'])}" if len(wer["seeds"]) > 1 else ""
    return f"{wer['low']:.3f}-{wer['high']:.3f}{seeds}"


def figures_of(part: Part, measured: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Figures of a row: the mean over seeds and each seed's value; word errors with an interval."""
    if not measured:
        return {}
    if part.measure == "wer":
        errors = [read_errors(one) for one in measured]
        pooled = bootstrap_rate([one for each in errors for one in each])
        return {"wer": asdict(pooled) | {"seeds": [corpus_errors(each).rate for each in errors]}}
    names = FIGURES[part.measure]
    seeds = {name: [one["figures"][name] for one in measured] for name in names}
    return {name: {"value": sum(each) / len(each), "seeds": each} for name, each in seeds.items()}


def verdict(part: Part, claim: Claim, rows: Rows) -> dict[str, Any]:
    """Whether a claim's difference has the same sign here; ``gain`` is positive if it has."""
    sign = 1.0 if FIGURES[part.measure][claim.figure] else -1.0
    better, worse = (part.row(name).paper[claim.figure] for name in (claim.better, claim.worse))
    out: dict[str, Any] = {"says": claim.says, "better": claim.better, "worse": claim.worse, "figure": claim.figure}
    out["paper"] = sign * (better - worse)
    ours = [rows.get(name, ()) for name in (claim.better, claim.worse)]
    if not all(ours):
        return out | {"gain": None, "holds": OPEN}
    gain = _gain(part, claim.figure, ours, sign)
    holds = HOLDS if gain.low > 0.0 else TURNED if gain.high < 0.0 else UNSURE
    return out | {"gain": asdict(gain), "holds": holds}


def _gain(part: Part, figure: str, ours: Sequence[Sequence[Mapping[str, Any]]], sign: float) -> BootstrapInterval:
    """Gain of the row that the paper calls better, with an interval if available."""
    if part.measure == "wer":
        count = min(map(len, ours))  # shared seeds
        better, worse = ([one for each in rows[:count] for one in read_errors(each)] for rows in ours)
        return bootstrap_difference(worse, better)
    values = [[one["figures"][figure] for one in rows] for rows in ours]
    means = [sum(each) / len(each) for each in values]
    gain = sign * (means[0] - means[1])
    apart = [sign * (a - b) for a in values[0] for b in values[1]]  # all pairs of seeds
    return BootstrapInterval(gain, min(apart), max(apart))


@dataclass(frozen=True)
class SpokenTexts:
    """Texts by speaker that the teacher speaks in the same words, with its sounds."""

    texts: Mapping[str, list[str]]
    taught: Mapping[str, list[Sound]]


def spoken_texts(at: EvaluationRun, texts: Sequence[str], *, is_taught: bool) -> SpokenTexts:
    """Texts to speak; all texts without a teacher."""
    if not is_taught:
        return SpokenTexts({speaker: [*texts] for speaker in at.speakers}, {})
    spoken: dict[str, list[str]] = {}
    taught: dict[str, list[Sound]] = {}
    for speaker in at.speakers:
        recordings = [
            (text, one) for text, one in zip(texts, at.teacher(speaker, texts), strict=True) if one is not None
        ]
        spoken[speaker] = [text for text, _ in recordings]
        taught[speaker] = [(one.pcm, at.card.sample_rate_hz) for _, one in recordings]
    return SpokenTexts(spoken, taught)


@dataclass
class VoiceMeasurement:
    """One voice under measurement."""

    at: EvaluationRun
    texts: Sequence[str]
    is_taught: bool
    threads: int

    @cached_property
    def speech(self) -> SpokenTexts:
        """The texts to speak."""
        return spoken_texts(self.at, self.texts, is_taught=self.is_taught)

    def word_errors(self, row: Row) -> dict[str, Any]:
        """Word errors of every sentence by speaker: (words, substitutions, deletions, insertions)."""
        options = merge_options(self.at.card.options, row.options, {})
        each: dict[str, Any] = {}
        for speaker, texts in self.speech.texts.items():
            sounds = self._sounds(speaker, texts, row, options)
            errors = score(self.at, f"{speaker} {row.name}", texts, sounds)
            each[speaker] = [[*astuple(one)] for one in errors]
        return {"each": each, "options": options}

    def queries(self, row: Row) -> dict[str, Any]:
        """Figures of whole texts at a rate, on an otherwise idle machine."""
        options = merge_options(self.at.card.options, row.options, {})
        self.at.close()  # its engine would use memory and cores
        setting = LoadSetting(
            voices=self.at.setting.voices,
            voice=self.at.card.name,
            device=self.at.setting.device,
            threads=self.threads,
            lines=self.texts,
            options=options,
            rates=(float(row.load["per_s"]),),
            kinds=(row.load["kind"],),
            arrivals=(row.load["arrivals"],),
            query_seconds=float(row.load["seconds"]),
            places=row.load["places"],
            seed=self.at.setting.seed,
            quiet=True,
        )
        (run,) = bench_queries(setting)["runs"]
        figures = {
            "first_ms": run["first_pcm_ms"]["mean"],
            "last_ms": run["last_ms"]["mean"],
            "rtf": run["rtf"],
            "x_real_time": run["x_real_time"],
        }
        return {"figures": figures, "options": options, "run": run}

    def cascade(self, row: Row) -> dict[str, Any]:
        """Mean latencies with replayed words of a language model, on an otherwise idle machine."""
        options = merge_options(self.at.card.options, row.options, {})
        replies = [evenly(text, **row.load) for text in self.texts]
        each = cascade(self.at, replies, options, CascadeSetting.pause_ms)
        return {"figures": {name: mean(one[name] for one in each) for name in FIGURES["cascade"]}, "options": options}

    def _sounds(self, speaker: str, texts: Sequence[str], row: Row, options: dict[str, Any]) -> list[Sound]:
        if row.reference == "teacher":
            return self.speech.taught[speaker]
        if row.reference == "dmel":
            return resynthesised(self.at, self.speech.taught[speaker])
        return [(one.pcm, one.rate_hz) for one in self.at.speak(speaker, texts, options)]


def read_errors(row: Mapping[str, Any]) -> list[WordErrors]:
    """Word errors of a measured row, sentence by sentence, of all speakers."""
    return [WordErrors(*one) for each in row["each"].values() for one in each]
