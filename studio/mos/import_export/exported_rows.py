"""Reads the counted answers of the studio's own exports, CSV or JSON."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from studio.core.csv_files import parse_number
from studio.core.errors import BadFile
from studio.measure.tables import plain_text
from studio.mos.campaign.config import CampaignConfig, Question, from_json
from studio.mos.campaign.names import read_tags
from studio.mos.import_export.answer_rows import MAX_SYSTEMS
from studio.mos.import_export.answer_shapes import AnswerTable
from studio.mos.kinds.base import CountedAnswer
from studio.mos.kinds.registry import kind_of
from studio.mos.kinds.tables import MATCH
from studio.mos.stats.columns import OUTCOMES, Votes, votes_from_rows

_NEEDED = ("campaign", "rater", "role", "counted", "use", "item", "question", "system_a", "system_b", "outcome")
_SIGNATURE = ("campaign", "rater", "use", "counted", "question")
_MAX_SEED_DIGITS = 60
_ROLES = {"training": "practice", "trap": "traps", "gold": "golds", "repeat": "repeats"}
_Line = tuple[str, dict[str, str]]


@dataclass(frozen=True)
class ExportedAnswers:
    """The counted answers of an exported campaign, in order of arrival, and the settings that their analysis needs."""

    name: str
    config: CampaignConfig
    answers: Sequence[CountedAnswer]
    seed: int
    roles: dict[str, str]  # of systems other than test systems
    left_out: Mapping[str, int]
    notes: list[str] = field(default_factory=list[str])


def is_export(table: AnswerTable, preset: str = "") -> bool:
    """Whether a table is an export of the studio, by its columns or the preset ``studio``."""
    return preset == "studio" or (not preset and set(_SIGNATURE) <= set(table.columns))


def exported_answers(table: AnswerTable, campaign: str, tag: str, *, everyone: bool = False) -> ExportedAnswers:
    """Counted answers of test trials. Raises BadFile: a column is missing, a line is wrong, or there are none.

    Args:
        campaign: name of the campaign to read from an export of several.
        everyone: include answers of raters that a gate excludes.
    """
    _need(table, "trial", "slot", "system", "score", "low", "high", "reference")
    lines, left_out, name = _counted_lines(table, campaign, tag, everyone=everyone)
    first = lines[0][1]
    about: Mapping[str, Any] = table.whole.get("campaign") or {}
    kind = str(about.get("kind") or first.get("kind") or _guessed_kind(lines))
    anchor, notes = first.get("mid_anchor") or None, list[str]()
    config = from_json(about["config"]) if "config" in about else _config(kind, lines)
    if not about and "kind" not in table.columns:
        notes.append("an export of an older studio: the kind of test and the seed are guessed; export it again")
    seed = _seed(str(about.get("seed") or first.get("seed") or 0), lines[0][0])
    systems: Sequence[Mapping[str, Any]] = table.whole.get("systems") or ()
    roles = {str(s["name"]): str(s["role"]) for s in systems if s["role"] != "test"}
    trials: dict[str, list[_Line]] = {}  # rows may have been sorted by another column
    for line in lines:
        trials.setdefault(line[1]["trial"], []).append(line)
    answers = [_answer(mine, kind, anchor) for mine in trials.values()]
    if not roles:
        roles = _named_roles(answers) if kind in ("mushra", "dcr") else {}
    return ExportedAnswers(name, config, answers, seed, roles, left_out, notes)


def _named_roles(answers: Sequence[CountedAnswer]) -> dict[str, str]:
    """Roles of references, and of anchors by their names (the rule for folders of sounds)."""
    anchors = {s for a in answers for s in a.systems if s == a.mid_anchor or s.casefold().startswith("anchor")}
    return dict.fromkeys(sorted(anchors), "anchor") | {a.reference: "reference" for a in answers if a.reference}


def exported_votes(table: AnswerTable, campaign: str, tag: str) -> tuple[Votes, Mapping[str, int]]:
    """Votes on the preference question that the analysis counts. Raises BadFile as ``exported_answers``."""
    lines, left_out, _ = _counted_lines(table, campaign, tag)
    rows: list[tuple[str, str, str, str, str]] = []
    for where, line in lines:
        if not line["outcome"]:
            left_out["scores, not choices"] += 1
        elif line["question"] != "preference":
            left_out["answers to other questions than preference"] += 1
        else:
            a, b, outcome = _choice(where, line)
            rows.append((a, b, outcome, line["rater"], line["item"]))
    if not rows:
        raise BadFile(f"{table.name} has no votes that count{_why(left_out)}", "export a campaign of pairs")
    return votes_from_rows(rows), left_out


def _why(left_out: Mapping[str, int]) -> str:
    why = "; ".join(f"{count} left out: {reason}" for reason, count in left_out.items())
    return f" ({why})" if why else ""


def _counted_lines(
    table: AnswerTable, campaign: str, tag: str, *, everyone: bool = False
) -> tuple[list[_Line], Counter[str], str]:
    _need(table, *_NEEDED, *(["tags"] if tag else []))
    lines: list[_Line] = []
    left_out: Counter[str] = Counter()
    names: dict[str, None] = {}
    for where, cells in table.lines():
        line = {what: plain_text(cell) for what, cell in cells.items()} if table.is_csv else cells
        if campaign and line["campaign"] != campaign:
            left_out["of another campaign"] += 1
        elif reason := _exclusion_reason(line, everyone=everyone):
            left_out[reason] += 1
        elif tag and tag not in read_tags(line["tags"]):
            left_out[f"of scripts without the tag {tag}"] += 1
        else:
            for what in ("rater", "item", "trial"):
                if not line.get(what, "-"):
                    raise BadFile(f"{where} has no {what}", "export the campaign again")
            lines.append((where, line))
            names[line["campaign"]] = None
    if len(names) > 1:
        raise BadFile(
            f"{table.name} holds several campaigns ({', '.join(names)}), whose scores cannot be compared",
            "choose one with --campaign",
        )
    if not lines:
        raise BadFile(f"{table.name} has no answers that count{_why(left_out)}", "export a campaign that has answers")
    return lines, left_out, next(iter(names))


def _need(table: AnswerTable, *columns: str) -> None:
    if missing := [c for c in columns if c not in table.columns]:
        raise BadFile(f"{table.name} has no column {', '.join(missing)}", "export the campaign again")


def _exclusion_reason(line: Mapping[str, str], *, everyone: bool) -> str | None:
    """Reason why the analysis does not count a row; None if it does."""
    if line["role"] != "test":
        return f"answers to {_ROLES.get(line['role'], line['role'])}"
    if line["counted"] not in ("True", "true", "TRUE", "1"):
        return "repeated attempts, which do not count"
    if line.get("missing"):
        return "skipped trials"
    return "answers of raters that a gate excludes" if line["use"] == "fail" and not everyone else None


def _seed(text: str, where: str) -> int:
    if text.isdecimal() and len(text) <= _MAX_SEED_DIGITS:
        return int(text)
    if (value := parse_number(text, f"{where}, column seed")) < 0:
        raise BadFile(f"{where} has the seed {text!r:.40}", "export the campaign again: seeds begin with 0")
    return int(min(value, 2**53))  # 11.0, as data frames write whole numbers


def _answer(lines: list[_Line], kind: str, anchor: str | None) -> CountedAnswer:
    """One answer from its rows: one per score, and one for a choice."""
    first = lines[0][1]
    systems: dict[int, str] = {}
    scores: dict[tuple[str, int], float] = {}
    outcomes: dict[str, str] = {}
    order: dict[str, int] = {}
    for where, line in lines:
        if line["outcome"]:
            a, b, outcomes[line["question"]] = _choice(where, line)
            systems |= {0: a, 1: b}
        else:
            slot = _integer(line, "slot", where)
            scores[line["question"], slot] = _integer(line, "score", where)
            if kind_of(kind).is_relative:
                systems |= {0: line["system_a"], 1: line["system_b"]}
            else:
                systems[slot] = line["system"]
        if line.get("asked"):
            order[line["question"]] = _integer(line, "asked", where)
    if len(systems) > MAX_SYSTEMS or sorted(systems) != list(range(len(systems))) or "" in systems.values():
        raise BadFile(f"the trial of {lines[0][0]} lacks rows of some of its sounds", "export the campaign again")
    latencies = tuple(_milliseconds(first, f"latency_{side}_ms", lines[0][0]) for side in "ab")
    return CountedAnswer(
        rater=first["rater"],
        item=first["item"],
        systems=[systems[slot] for slot in range(len(systems))],
        scores=scores,
        outcomes=outcomes,
        reference=first["reference"] or None,
        mid_anchor=anchor,
        tags=read_tags(first.get("tags", "")),
        question_order=tuple(sorted(order, key=lambda question: order[question])),
        latencies_ms=latencies if first.get("trace_a") and first.get("trace_b") else (),
    )


def _choice(where: str, line: Mapping[str, str]) -> tuple[str, str, str]:
    a, b, outcome = line["system_a"], line["system_b"], line["outcome"]
    if not a or not b:
        raise BadFile(f"{where} does not name two systems", "fill the columns system_a and system_b")
    if a == b:
        raise BadFile(f"{where} compares {a!r} with itself", "system_a and system_b must differ")
    if outcome not in OUTCOMES:
        raise BadFile(f"{where} has the outcome {outcome!r:.80}", f"choose {', '.join(OUTCOMES)}")
    return a, b, outcome


def _integer(line: Mapping[str, str], what: str, where: str) -> int:
    value = parse_number(line[what], f"{where}, column {what}")
    if abs(value) > MAX_SYSTEMS or value != int(value):
        raise BadFile(f"{where} has {what} {line[what]!r:.40}", "export the campaign again")
    return int(value)


def _milliseconds(line: Mapping[str, str], what: str, where: str) -> float | None:
    return parse_number(line[what], f"{where}, column {what}") if line.get(what) else None


def _guessed_kind(lines: Sequence[_Line]) -> str:
    """The kind of test of an export without the column ``kind``."""
    rows = [line for _, line in lines]
    if any(row["outcome"] for row in rows):
        if any(row["question"] == MATCH for row in rows):
            return "abx"
        return "live" if any(row.get("trace_a") for row in rows) else "ab"
    if any(row["system_a"] for row in rows):
        return "ccr"
    if any(row.get("asked") for row in rows):
        return "p835"
    if any(row["reference"] for row in rows):
        return "mushra" if any(row["slot"] not in ("", "0") for row in rows) else "dcr"
    return "acr"


def _config(kind: str, lines: Sequence[_Line]) -> CampaignConfig:
    """Settings of an export in CSV: the questions with their scales, the choices and the baseline."""
    scored = {line["question"]: (where, line) for where, line in reversed(lines) if not line["outcome"]}
    questions = [
        Question(name, "", _integer(line, "low", where), _integer(line, "high", where))
        for name, (where, line) in sorted(scored.items())
    ]
    used = {line["outcome"] for _, line in lines}
    document = {
        "kind": kind_of(kind).name,
        "questions": [{"id": q.id, "prompt": "", "low": q.low, "high": q.high} for q in questions],
        "choices": [outcome for outcome in OUTCOMES if outcome in used or (outcome in "ab" and used - {""})],
        "baseline": lines[0][1].get("baseline") or None,
    }
    return from_json(document)
