"""Reads answers from files (exports of the studio, tables of other programs) for the analysis of a campaign."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from studio.core.csv_files import parse_number
from studio.core.errors import BadFile, BadOption
from studio.mos.analysis.answers import MID_ANCHOR_NAME, campaign_consensus
from studio.mos.analysis.results import analysis, consensus_rows
from studio.mos.campaign.config import CampaignConfig, Question
from studio.mos.import_export.answer_paths import named_by_files
from studio.mos.import_export.answer_presets import PRESETS
from studio.mos.import_export.answer_rows import AnswerRow, AnswerRows, choose_preset, read_rows, widened
from studio.mos.import_export.answer_shapes import AnswerTable, read_answer_table
from studio.mos.import_export.exported_rows import exported_answers, exported_votes, is_export
from studio.mos.kinds.base import CountedAnswer
from studio.mos.kinds.marked import MarkedAnswers, codes_of, marked
from studio.mos.stats.columns import Votes, distinct_rows, votes_from_rows

_SCALES = ((1, 5), (1, 7), (0, 10), (0, 100), (-3, 3), (-100, 100))
_COMPARED = ((-3, 3), (-5, 5), (-10, 10), (-100, 100))


@dataclass(frozen=True)
class FileOptions:
    """Settings for reading a file: information that it lacks, or has under other names.

    Attributes:
        preset: a name in ``PRESETS``; by default recognised by the columns.
        columns: the file's column by field (``answer_rows.FIELDS``).
        campaign: name of the campaign to read from an export of several.
        tag: read only answers on scripts with this tag.
        kind: kind of test, if the columns do not determine it (acr, scale, mushra, dcr, ab, ccr).
        scale: lowest and highest score; by default the preset's, or guessed from the scores, with a note.
        reference: the system that is the hidden reference (MUSHRA).
        baseline: the system with which the others are compared.
        seed: of the posterior's draws; by default the export's, or 0.
        everyone: include answers of raters that a gate excluded (exports of the studio).
    """

    preset: str = ""
    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    campaign: str = ""
    tag: str = ""
    kind: str = ""
    scale: tuple[int, int] | None = None
    reference: str = ""
    baseline: str = ""
    seed: int | None = None
    everyone: bool = False


@dataclass(frozen=True)
class FileAnswers:
    """Answers of a file, the settings that their analysis needs, and the number of lines left out by reason."""

    name: str
    config: CampaignConfig
    answers: MarkedAnswers
    seed: int = 0
    roles: Mapping[str, str] = field(default_factory=dict[str, str])  # of systems other than test systems
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    notes: Sequence[str] = ()

    @property
    def systems(self) -> list[str]:
        """Names of all rated systems, sorted."""
        return sorted({name for mark in self.answers.marks for name in mark.systems})


def read_answers(path: Path, options: FileOptions = FileOptions()) -> FileAnswers:
    """Read a file of scores or votes. Raises BadFile, BadOption as ``answer_rows`` does."""
    table = read_answer_table(path)
    if is_export(table, options.preset):
        _check_no_mapping(options)
        export = exported_answers(table, options.campaign, options.tag, everyone=options.everyone)
        seed = export.seed if options.seed is None else options.seed
        answers = marked(export.answers)
        found = FileAnswers(export.name, export.config, answers, seed, export.roles, export.left_out, export.notes)
        return _with_baseline(found, options.baseline)
    rows, left_out, preset, shape_notes = _read_mapped(table, options)
    known = PRESETS[preset]
    reference = options.reference or _named_reference(rows.distinct, known.reference)
    if reference and not any(row.system == reference for row in rows.distinct):
        raise BadOption(f"{path.name} has no system {reference!r:.80}", "name a rated system as the reference")
    first = rows.distinct[0]
    kind = _checked_kind(options.kind, first) or _kind_of(first, reference)
    notes = [*_unknown_notes(rows), *_repeat_notes(rows), *_spelling_notes(rows.distinct)]
    options = replace(options, reference=reference)
    config, scale_notes = _config(kind, rows.distinct, options, known.scale)
    anchor = _mid_anchor(rows.distinct) if kind == "mushra" else None
    marks = [
        CountedAnswer(
            rater="",
            item="",
            systems=(row.a, row.b) if row.a else (row.system,),
            scores={}
            if row.score is None
            else {(row.question or config.questions[0].id, 1 if row.a else 0): row.score},
            outcomes={"preference": row.outcome} if row.outcome else {},
            reference=reference or None,
            mid_anchor=anchor,
            tags=row.tags,
        )
        for row in rows.distinct
    ]
    (rater, raters), (item, items) = (
        codes_of([name or f"answer {number}" for number, name in enumerate(names, start=1)])
        for names in (rows.raters, rows.items)
    )
    answers = MarkedAnswers(raters, items, marks, rater, item, rows.row)
    roles = dict.fromkeys(_anchors(rows.distinct), "anchor") if kind == "mushra" else {}
    roles |= {reference: "reference"} if reference else {}
    notes = [*shape_notes, *notes, *scale_notes]
    found = FileAnswers(path.name, config, answers, options.seed or 0, roles, left_out, notes)
    return _with_baseline(found, options.baseline)


def read_votes(path: Path, options: FileOptions = FileOptions()) -> tuple[Votes, Mapping[str, int]]:
    """Votes of a file, with unknown raters and scripts where it has none, and the number of lines left out by reason.

    Raises BadFile, BadOption as ``read_answers``, and BadFile for a file of scores.
    """
    table = read_answer_table(path)
    if is_export(table, options.preset):
        _check_no_mapping(options)
        return exported_votes(table, options.campaign, options.tag)
    rows, left_out, _, _ = _read_mapped(table, options)
    if not rows.distinct[0].outcome:
        raise BadFile(f"{path.name} has scores, not votes", "`studio campaign scores` analyses them")
    answers = map(rows.distinct.__getitem__, rows.row.tolist())
    votes = ((one.a, one.b, one.outcome, *names) for one, *names in zip(answers, rows.raters, rows.items, strict=True))
    return votes_from_rows(votes), left_out


def _check_no_mapping(options: FileOptions) -> None:
    options_used = [what for what in ("columns", "kind", "scale", "reference") if getattr(options, what)]
    if options_used:
        raise BadOption(f"an export of the studio needs no {options_used[0]}", "leave that option out")


def _read_mapped(table: AnswerTable, options: FileOptions) -> tuple[AnswerRows, Counter[str], str, list[str]]:
    if options.campaign:
        raise BadOption(f"{table.name} is no export of the studio, so it names no campaign", "leave --campaign out")
    table, mapped, notes = widened(table, options.preset, options.columns)
    preset, columns = choose_preset(table, options.preset, mapped)
    table, columns, path_notes = named_by_files(table, columns)
    notes += path_notes
    if options.tag and "tags" not in columns:
        raise BadFile(f"{table.name} has no column tags", "map it: --column tags=NAME")
    rows, left_out = read_rows(table, columns)
    if options.tag:
        tagged = rows.tagged(options.tag)
        left_out += Counter({f"of scripts without the tag {options.tag}": len(rows) - len(tagged)})
        rows = tagged
    if not len(rows):
        raise BadFile(f"{table.name} has no answers on scripts with the tag {options.tag!r:.80}", "choose another tag")
    return rows, left_out, preset, notes


def _named_reference(rows: Sequence[AnswerRow], name: str) -> str:
    """The system with the name of the preset's reference, in any case; empty if there is none."""
    return next((row.system for row in rows if name and row.system.casefold() == name), "")


def _with_baseline(found: FileAnswers, name: str) -> FileAnswers:
    if name and name not in found.systems:
        raise BadOption(f"the baseline {name!r:.80} is not one of the systems", f"choose {', '.join(found.systems)}")
    return replace(found, config=replace(found.config, baseline=name)) if name else found


def _checked_kind(kind: str, first: AnswerRow) -> str:
    fits = ("ab",) if first.outcome else ("ccr",) if first.a else ("acr", "scale", "mushra", "dcr")
    if kind and kind not in fits:
        raise BadOption(f"the file's answers are not of the kind {kind!r:.40}", f"choose {', '.join(fits)}")
    return kind


def _kind_of(first: AnswerRow, reference: str) -> str:
    if first.outcome:
        return "ab"
    return "ccr" if first.a else "mushra" if reference else "acr"


def _config(
    kind: str, rows: Sequence[AnswerRow], options: FileOptions, usual: tuple[int, int] | None
) -> tuple[CampaignConfig, list[str]]:
    """Settings and notes; ``usual``: the preset's scale, used for MUSHRA and where the scores fit it."""
    if rows[0].outcome:
        return CampaignConfig(kind, choices=["a", "b", "tie", "both_bad"]), []
    names = list(dict.fromkeys(row.question for row in rows))
    if kind == "mushra" and (len(names) > 1 or not options.reference):
        raise BadOption("MUSHRA has one question and a reference", "name the reference: --reference SYSTEM")
    scores = [row.score for row in rows if row.score is not None]
    if usual and (kind == "mushra" or usual[0] <= min(scores) <= max(scores) <= usual[1]):
        options = replace(options, scale=options.scale or usual)
    low, high, notes = _scale(scores, options.scale, is_relative=bool(rows[0].a))
    questions = [Question(name or "score", "", low, high) for name in names]
    return CampaignConfig(kind, questions=questions), notes


def _scale(scores: Sequence[float], scale: tuple[int, int] | None, *, is_relative: bool) -> tuple[int, int, list[str]]:
    lowest, highest = min(scores), max(scores)
    is_share = 0 <= lowest < 1 and highest <= 1
    known = (scale,) if scale else _COMPARED if is_relative else ((0, 1),) if is_share else _SCALES
    low, high = next(((a, b) for a, b in known if a <= lowest and highest <= b), known[-1])
    if not low <= lowest <= highest <= high:
        raise BadFile(
            f"a score is {lowest if lowest < low else highest:g}, the scale is {low} to {high}", "give --scale"
        )
    guess = f"the scale is taken to be {low} to {high}, from the scores; --scale sets another, as 1:5"
    return low, high, [] if scale else [guess]


def _unknown_notes(rows: AnswerRows) -> list[str]:
    return [
        f"the file names no {what}s: every answer is taken as one of its own {what}, so intervals are too narrow where "
        f"one {what} has several"
        for what, names in (("rater", rows.raters), ("script", rows.items))
        if names[0] is None
    ]


def _repeat_notes(rows: AnswerRows) -> list[str]:
    if rows.raters[0] is None or rows.items[0] is None:
        return []
    rated = [(row.system, frozenset((row.a, row.b)), row.question) for row in rows.distinct]
    columns = codes_of(rated)[0][rows.row], codes_of(rows.raters)[0], codes_of(rows.items)[0]
    if not (repeats := len(rows) - distinct_rows(*columns)):
        return []
    return [
        f"{repeats:,} answers are further ones of a rater to the same script and "
        f"{'pair' if rows.distinct[0].a else 'system'}, and count too: take copies out of the file"
    ]


def _spelling_notes(rows: Sequence[AnswerRow]) -> list[str]:
    """A note on names of systems that differ only in capitals."""
    names: dict[str, set[str]] = {}
    for name in {name for row in rows for name in (row.system, row.a, row.b) if name}:
        names.setdefault(name.casefold(), set()).add(name)
    alike = [" and ".join(sorted(those)) for _, those in sorted(names.items()) if len(those) > 1]
    return (
        [f"names of systems that differ in capitals only are systems of their own: {', '.join(alike[:10])}"]
        if alike
        else []
    )


def _anchors(rows: Sequence[AnswerRow]) -> set[str]:
    """Systems that their names mark as anchors, by the rule for folders of sounds."""
    return {r.system for r in rows if r.system.casefold().startswith("anchor") or MID_ANCHOR_NAME.search(r.system)}


def _mid_anchor(rows: Sequence[AnswerRow]) -> str | None:
    return next((name for name in dict.fromkeys(row.system for row in rows) if MID_ANCHOR_NAME.search(name)), None)


def parse_scale(text: str) -> tuple[int, int] | None:
    """``1:5`` as (1, 5); None for an empty text. Raises BadOption."""
    if not text:
        return None
    try:
        low, high = (parse_number(part, "--scale") for part in text.split(":"))
    except (ValueError, BadFile) as error:
        raise BadOption(f"the scale is {text!r:.40}", "write it as 1:5 or -3:3") from error
    if not -100 <= low < high <= 100 or low != int(low) or high != int(high):
        raise BadOption(f"the scale is {text!r:.40}", "give whole numbers, the lower one first, from -100 to 100")
    return int(low), int(high)


def parse_columns(pairs: Iterable[str]) -> dict[str, str]:
    """``["rater=WorkerId"]`` as a mapping by field. Raises BadOption."""
    column_of: dict[str, str] = {}
    for pair in pairs:
        what, sign, column = pair.partition("=")
        if not sign or not column.strip():
            raise BadOption(f"the column is mapped as {pair!r:.80}", "write FIELD=NAME, rater=WorkerId for instance")
        column_of[what.strip()] = column.strip()
    return column_of


def file_results(read: FileAnswers) -> dict[str, Any]:
    """Results of a file for the reports, in the form of ``studio.mos.analysis.results.results``.

    ``design``, ``gates`` and ``loudness`` are None and the funnel is empty, since only campaigns have them.
    """
    config, answers = read.config, read.answers
    raters = set(answers.names_of()[1])
    consensus = campaign_consensus(config, answers, raters)
    return {
        "name": read.name,
        "kind": config.kind,
        "title": read.name if config.texts.title == CampaignConfig("acr").texts.title else config.texts.title,
        "state": "from a file",
        "raters": len(raters),
        "finished": len(raters),
        "unusable_raters": 0,
        "answers": len(answers),
        "counted": len(answers),
        "wanted": 0,
        "aside": 0,
        "skipped": 0,
        "stopped": None,
        "lacking": "",
        "forgotten": {"raters": 0, "answers": 0},
        "seed": read.seed,
        "everyone": False,
        "left_out": 0,
        "left_out_rows": dict(read.left_out),
        "read_notes": list(read.notes),
        "design": None,
        "rule": {"level": 0.95, "half_width": None, "decided": False},
        "looks": [],
        "systems": [{"name": s, "role": read.roles.get(s, "test"), "voice": {}} for s in read.systems],
        "sounds": {},
        "funnel": [],
        "gates": None,
        "effort": {"median_response_ms": None, "mean_plays": None},
        "takes": [],
        "loudness": None,
        "consistency": {"questions": {}, "raters": []},
        "consensus": consensus_rows(config, [(rater, agreement, "unknown") for rater, agreement in consensus.items()]),
        "predicted": None,
        **analysis(config, answers, read.seed, {name: read.roles.get(name, "test") for name in read.systems}),
    }
