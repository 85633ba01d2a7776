"""Read votes from CSV files; from the studio's own exports only the rows that the analysis counts."""

import csv
import io
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from studio.core.errors import BadFile
from studio.core.files import read_bounded
from studio.mos.stats.columns import OUTCOMES, Vote, Votes, votes_from_rows

EXPORTED = ("role", "counted", "use", "question", "system_a", "system_b", "outcome", "rater", "item", "campaign")
_LINE_1 = "line 1 must be a,b,outcome and optionally rater and item"
MAX_VOTES_BYTES = 1 << 28


def votes_from_csv(path: Path, campaign: str = "", tag: str = "") -> tuple[Votes, dict[str, int]]:
    """Votes from a CSV file with a header: a, b, outcome (a, b, tie, both_bad) and optionally rater and item (script).

    From an export of the studio, which has ``system_a`` and ``system_b``, only rows that the analysis counts are read:
    counted answers to the preference question on test trials, of raters that no gate excludes. In other files every
    line counts, and further columns are ignored.

    Args:
        path: the file.
        campaign: name of the campaign to read from an export of several.
        tag: only votes on scripts with this tag (column ``tags``, separated by semicolons).

    Returns:
        The votes, and the number of skipped rows by reason.

    Raises:
        BadFile: the file is missing, not UTF-8, lacks a column, has an invalid line (reported by number), or contains
            several campaigns, whose scores are not comparable.
    """
    try:
        text = read_bounded(path, MAX_VOTES_BYTES).decode("utf-8-sig")
        rows, left_out = _lines(csv.DictReader(io.StringIO(text, newline=""), strict=True), path.name, campaign, tag)
    except FileNotFoundError as error:
        raise BadFile(f"there is no file {path}", "check the path") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadFile(f"{path.name} cannot be read as CSV: {error}", "save it as UTF-8 text with commas") from error
    if not rows:
        why = "; ".join(f"{count} left out: {reason}" for reason, count in left_out.items())
        raise BadFile(
            f"{path.name} has no votes" + (f" that count ({why})" if why else ""),
            "write one line per vote under the header a,b,outcome,rater,item",
        )
    return votes_from_rows(rows), dict(left_out)


def _lines(reader: "csv.DictReader[str]", name: str, campaign: str, tag: str) -> tuple[list[Vote], Counter[str]]:
    columns = reader.fieldnames or []
    exported = "a" not in columns and "system_a" in columns
    needed = [*(EXPORTED if exported else ("a", "b", "outcome")), *(["tags"] if tag else [])]
    if missing := [c for c in needed if c not in columns]:
        do = "export the campaign again" if exported else _LINE_1
        raise BadFile(f"{name} has no column {', '.join(missing)}", do)
    rows: list[Vote] = []
    left_out: Counter[str] = Counter()
    campaigns: set[str] = set()
    for line in reader:
        if exported and campaign and line["campaign"] != campaign:
            left_out["of another campaign"] += 1
        elif exported and (reason := _why_not(line)):
            left_out[reason] += 1
        elif tag and tag not in line["tags"].split(";"):
            left_out[f"of scripts without the tag {tag}"] += 1
        else:
            rows.append(_vote(line, exported, f"line {reader.line_num} of {name}"))
            campaigns |= {line["campaign"]} if exported else set()
    if len(campaigns) > 1:
        named = ", ".join(sorted(campaigns))
        raise BadFile(
            f"{name} holds several campaigns ({named}), whose scores cannot be compared", "choose one with --campaign"
        )
    return rows, left_out


def _why_not(line: Mapping[str, str]) -> str | None:
    """Reason why the analysis does not count a row of an export; None if it does."""
    if line["role"] != "test":
        return f"answers to {_ROLES.get(line['role'], line['role'])}"
    if line["counted"] not in ("True", "true", "1"):
        return "repeated attempts, which do not count"
    if not line["outcome"]:
        return "scores, not choices"
    if line["question"] != "preference":
        return "answers to other questions than preference"
    return "votes of raters whom a gate excludes" if line["use"] == "fail" else None


_ROLES = {"training": "practice", "trap": "traps", "gold": "golds", "repeat": "repeats"}


def _vote(line: Mapping[str, str], exported: bool, where: str) -> Vote:
    first, second = ("system_a", "system_b") if exported else ("a", "b")
    a, b, outcome = line[first], line[second], line["outcome"]
    if not a or not b:
        raise BadFile(f"{where} does not name two systems", f"fill the columns {first} and {second}")
    if a == b:
        raise BadFile(f"{where} compares {a!r} with itself", f"{first} and {second} must differ")
    if outcome not in OUTCOMES:
        raise BadFile(f"{where} has the outcome {outcome!r}", f"choose {', '.join(OUTCOMES)}")
    known = {what: line[what] for what in ("rater", "item") if what in line}
    if empty := [what for what, value in known.items() if not value]:
        do = f"fill the column {empty[0]} in every line, or leave the column out"
        raise BadFile(f"{where} has no {empty[0]}", do)
    return Vote(a, b, outcome, **known)
