"""Rows of answers from files of other programs: columns by name, by preset or by option.

A row is a score (rater, item, system, score), a vote (a, b, outcome), a comparison (a, b, score: the second against the
first) or a count of votes (a, b, wins_a, wins_b, ties). Exports of the studio have their own reader
(studio.mos.import_export.answer_files), since they hold whole trials.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from studio.core.csv_files import column_key, parse_number
from studio.core.errors import BadFile, BadOption
from studio.mos.import_export.answer_presets import OUTCOME_OF, PRESETS, SCORE_OF, UNKNOWN
from studio.mos.import_export.answer_shapes import MAX_SCORE, AnswerTable, scores_of_columns
from studio.mos.stats.columns import I8

MAX_SYSTEMS = 500
_MAX_VOTES = 5_000_000  # of a file with counts
_NAME_CHARS = 300
Cells = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """Content of an answer: a score of ``system``, or a choice or score of ``a`` against ``b``."""

    question: str = ""
    system: str = ""
    score: float | None = None
    a: str = ""
    b: str = ""
    outcome: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class AnswerRows:
    """Answers [N] by columns: names of raters and scripts (None: unknown), and indices into the distinct rows."""

    raters: Sequence[str | None]
    items: Sequence[str | None]
    distinct: Sequence[AnswerRow]  # in order of appearance
    row: I8

    def __len__(self) -> int:
        return len(self.row)

    def tagged(self, tag: str) -> "AnswerRows":
        """The answers on scripts of a tag."""
        rows = np.flatnonzero(np.array([tag in row.tags for row in self.distinct], np.bool_)[self.row])
        used, row = np.unique(self.row[rows], return_inverse=True)
        raters, items = ([names[one] for one in rows.tolist()] for names in (self.raters, self.items))
        return AnswerRows(raters, items, list(map(self.distinct.__getitem__, used.tolist())), row)


_NEEDED = {
    "counts": ("a", "b", "wins_a", "wins_b"),
    "votes": ("a", "b", "outcome"),
    "arena": ("a", "b", "outcome"),
    "comparisons": ("a", "b", "score"),
    "p808": ("score", "rater", "file"),
    "paired": ("a", "b", "outcome"),
    "winners": ("a", "b"),
}
_NAMES = ("rater", "item")
_SCORED = ("system", "score")
_OF_SCORES = ("rater", "item", "system", "score", "question", "tags", "file")
_PREFIXES = ("", "answer.", "input.", "spreadsheet:")  # of Mechanical Turk and Gorilla
FIELDS = (*_OF_SCORES, "a", "b", "outcome", "wins_a", "wins_b", "ties")


def choose_preset(table: AnswerTable, name: str, mapped: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The preset of a table and the column of each field; ``name`` is empty to recognise it by its columns.

    Raises BadOption: no preset or field has that name, or the table lacks a column that was named; BadFile: the table
    fits no preset.
    """
    if name and name not in PRESETS:
        raise BadOption(f"there is no preset {name!r:.80}", f"choose studio, {', '.join(PRESETS)}")
    if unknown := sorted(set(mapped) - set(FIELDS)):
        raise BadOption(f"there is no field {unknown[0]!r:.80}", f"map {', '.join(FIELDS)}")
    for what, column in mapped.items():
        if column_key(column) not in table.columns:
            raise BadOption(f"{table.name} has no column {column!r:.80} for {what}", _has(table))
    closest: list[str] = []
    for preset in (name,) if name else PRESETS:
        columns = _columns_of(table, preset)
        columns |= {what: column_key(column) for what, column in mapped.items()}
        if preset == "votes" and columns["outcome"] and _are_signed(table, columns["outcome"]):
            columns |= {"score": columns.pop("outcome")}
            preset = "comparisons"  # signed scores, under any column name
        missing = [what for what in _NEEDED.get(preset, _SCORED) if not columns.get(what)]
        if missing == ["system"] and columns.get("file"):
            missing = []  # the last two parts of the file's path
        if missing:
            closest = missing if not closest or len(missing) < len(closest) else closest
        else:
            return preset, {what: column for what, column in columns.items() if column}
    if name:
        expected = ", ".join(f"{what} ({PRESETS[name].columns[what][0]})" for what in closest)
        raise BadFile(
            f"{table.name} lacks columns of the preset {name}: {expected}", f"leave --preset out; {_has(table)}"
        )
    lacking = ", ".join(closest)
    raise BadFile(
        f"{table.name} has no column that is known as {lacking}", f"map it: --column {closest[0]}=NAME; {_has(table)}"
    )


def _columns_of(table: AnswerTable, preset: str) -> dict[str, str]:
    """The column of each field of a preset, empty if there is none; underscores and points are ignored."""
    column_of = {_squeezed(column): column for column in reversed(table.columns)}
    return {
        what: next((column_of[c] for n in names for p in _PREFIXES if (c := _squeezed(p + n)) in column_of), "")
        for what, names in PRESETS[preset].columns.items()
    }


def _squeezed(column: str) -> str:
    return column.replace("_", "").replace(".", "")


def widened(table: AnswerTable, name: str, mapped: Mapping[str, str]) -> tuple[AnswerTable, dict[str, str], list[str]]:
    """Convert a table with a column of scores per system or question to one with a score per line.

    Returns the table, the other mapped columns, and notes; unchanged if it has a line per answer, or another layout.
    Raises BadOption: one of several columns named for scores is missing.
    """
    chosen = [column_key(one) for one in mapped.get("score", "").split(",")] if "," in mapped.get("score", "") else []
    others = {what: column for what, column in mapped.items() if what != "score"}
    if column_key(mapped.get("score", "")) in table.columns or name not in ("", "scores"):
        return table, dict(mapped), []
    if missing := [one for one in chosen if one not in table.columns]:
        raise BadOption(f"{table.name} has no column {missing[0]!r:.80} for score", _has(table))
    known = _columns_of(table, "scores") | {what: column_key(column) for what, column in others.items()}
    if not chosen:
        try:
            choose_preset(table, name, mapped)
        except BadFile:
            pass
        else:
            return table, dict(mapped), []
        if known["score"]:
            return table, dict(mapped), []
    found = scores_of_columns(table, known, chosen)
    return (found[0], others, [found[1]]) if found else (table, dict(mapped), [])


def _are_signed(table: AnswerTable, column: str) -> bool:
    """Whether a column holds numbers with a sign, some below -1 or above 2, so that they are scores, not outcomes."""
    cells = {cell.strip().replace("\u2212", "-") for cell in set(table.cells[column])}
    numbers = {cell for cell in cells if cell and cell.casefold() not in UNKNOWN}
    is_large = re.compile(r"[-+]?(?:[3-9]|[1-9]\d+)|-(?:2|\d+[.,]\d+)")
    return (
        all(re.fullmatch(r"[-+]?\d+(?:[.,]\d+)?", cell) for cell in numbers)
        and any(cell[0] in "-+" for cell in numbers)
        and any(map(is_large.fullmatch, numbers))
    )


def _has(table: AnswerTable) -> str:
    return f"its columns are {', '.join(table.columns[:30])}"


def read_rows(table: AnswerTable, columns: Mapping[str, str]) -> tuple[AnswerRows, Counter[str]]:
    """Answers of a table by the columns of ``choose_preset``, and the number of lines left out by reason.

    Lines without a score or outcome are left out. Raises BadFile, naming the line: a name is missing or too long, or a
    score or outcome cannot be read; also if no answer is left.
    """
    raters: list[str | None] = []
    items: list[str | None] = []
    codes: list[int] = []
    distinct: dict[AnswerRow, int] = {}
    left_out: Counter[str] = Counter()
    as_word = _outcome_words(table, columns) if "outcome" in columns else {}
    # Lines that differ only in rater and script are parsed once.
    named = [what for what in _NAMES if what in columns]
    others = [what for what in columns if what not in named]
    lines = zip(*(table.cells[columns[what]] for what in others), strict=True)
    of_cells = {what: {cell: _name(cell) for cell in set(table.cells[columns[what]])} for what in named}
    bad = {name for of_cell in of_cells.values() for name in of_cell.values() if not 0 < len(name) <= _NAME_CHARS}
    names = (map(of_cells[w].__getitem__, table.cells[columns[w]]) if w in named else repeat(None) for w in _NAMES)
    known: dict[tuple[str, ...], _Line] = {}
    for number, (key, rater, item) in enumerate(zip(lines, *names, strict=False)):
        if (line := known.get(key)) is None or rater in bad or item in bad:
            own = {what: name for what, name in zip(_NAMES, (rater, item), strict=True) if name is not None}
            if line is None:
                cells = own | {what: _name(cell) for what, cell in zip(others, key, strict=True)}
                line = known[key] = _read_line(cells, as_word, distinct, table.where(number))
            elif not line.missing:
                _check_names(own, table.where(number))
        if line.missing:
            left_out[line.missing] += 1
            continue
        for code in line.codes:
            raters.append(rater)
            items.append(item)
            codes.append(code)
        if len(codes) > _MAX_VOTES:
            raise BadFile(f"{table.name} has more than {_MAX_VOTES:,} votes", "give a part of them")
    if not codes:
        why = "; ".join(f"{count} left out: {reason}" for reason, count in left_out.items())
        raise BadFile(f"{table.name} has no answers that count ({why})", "fill the column of scores or outcomes")
    systems = {name for row in distinct for name in (row.system, row.a, row.b) if name}
    if len(systems) > MAX_SYSTEMS:
        raise BadFile(
            f"{table.name} has {len(systems):,} systems, {MAX_SYSTEMS} are allowed", "map the column of the systems"
        )
    return AnswerRows(raters, items, list(distinct), np.array(codes, np.int64)), left_out


def _name(cell: str) -> str:
    """A cell without blanks around it, in the form NFC, as names of sounds."""
    return unicodedata.normalize("NFC", cell.strip())


@dataclass(frozen=True, slots=True)
class _Line:
    """A parsed line: codes of its answers among the distinct ones, or what it lacks."""

    codes: list[int]
    missing: str = ""


def _read_line(cells: Cells, as_word: Mapping[str, str], distinct: dict[AnswerRow, int], where: str) -> _Line:
    """The answers of a line, which are added to ``distinct``. Raises BadFile."""
    empty = next((what for what in ("score", "outcome") if _is_missing(what, cells)), None)
    if empty:
        return _Line([], missing=f"without {'an' if empty == 'outcome' else 'a'} {empty}")
    if not cells.keys() & {"score", "outcome", "wins_a"}:  # a line names the winner and the loser
        cells = {**cells, "outcome": "tie" if _is_tie(cells.get("ties", ""), where) else "a"}
    elif as_word:
        cells = {**cells, "outcome": as_word.get(cells["outcome"], cells["outcome"])}
    _check_names(cells, where)
    rows = _votes(cells, where) if "wins_a" in cells else [_row(cells, where)]
    codes = [distinct.setdefault(row, len(distinct)) for row in rows]
    return _Line(codes)


def _is_missing(what: str, cells: Cells) -> bool:
    if what not in cells:
        return False
    text = cells[what].casefold()
    return not text or (text in UNKNOWN and cells[what] not in (cells.get("a"), cells.get("b")))


def _outcome_words(table: AnswerTable, columns: Mapping[str, str]) -> dict[str, str]:
    """Replacements of outcomes that are shares of a vote, or sides that are also names of systems.

    ``b`` in a line of the systems b and c may be the system or the side. It is the side if another line has the outcome
    a or b for other systems. Raises BadFile: no line decides it.
    """
    if shares := _shares(table, columns["outcome"]):
        return shares
    distinct = set(zip(*(table.cells[columns[what]] for what in ("outcome", "a", "b") if what in columns), strict=True))
    lines = [tuple(cell.strip() for cell in line) for line in distinct]
    sides = {text: side for text, *_ in lines if (side := _outcome_of(text) or "") in ("a", "b")}
    named = [(text, sides[text], "a" if text == a else "b") for text, a, b in lines if text in sides and text in (a, b)]
    if all(side == by_name for _, side, by_name in named):
        return {}
    are_sides = any(text in sides and text not in names for text, *names in lines)
    are_names = any(text not in sides and text in names for text, *names in lines)
    if are_sides == are_names:
        text = next(text for text, side, by_name in named if side != by_name)
        raise BadFile(
            f"{table.name} has the outcome {text!r:.40}, which may be a side or a system",
            "write model_a or model_b for sides",
        )
    return {text: f"{side} wins" for text, side in sides.items()} if are_sides else {}


def _shares(table: AnswerTable, column: str) -> dict[str, str]:
    """Words for outcomes that are the first system's share of a vote (1, 0.5, 0); empty for other outcomes.

    Raises BadFile: they are only 0 and 1, which may also be the winner's position.
    """
    cells = {cell.strip() for cell in set(table.cells[column])} - {""}
    if not cells <= {"0", "1", "0.5", "0,5", "0.0", "1.0", ".5"}:
        return {}
    shares = {cell: float(cell.replace(",", ".")) for cell in cells}
    if set(shares.values()) == {0.0, 1.0}:
        raise BadFile(f"{table.name} has only the outcomes 0 and 1", "write a, b or tie in that column")
    if 0.5 not in shares.values():
        return {}
    return {cell: {1.0: "a", 0.5: "tie", 0.0: "b"}[share] for cell, share in shares.items()}


def _check_names(cells: Cells, where: str) -> None:
    for what in ("rater", "item", "system", "a", "b"):
        if what in cells and not cells[what]:
            raise BadFile(
                f"{where} has no {what}", f"fill that column in every line, or leave the column of {what} out"
            )
        if len(cells.get(what, "")) > _NAME_CHARS:
            raise BadFile(f"{where} has a {what} of {len(cells[what])} characters", f"{_NAME_CHARS} are allowed")


def _row(cells: Cells, where: str) -> AnswerRow:
    a, b = cells.get("a", ""), cells.get("b", "")
    if (a or b) and a == b:
        raise BadFile(f"{where} compares {a!r} with itself", "name two systems")
    return AnswerRow(
        question=cells.get("question", ""),
        system=cells.get("system", ""),
        score=_score(cells["score"], where) if "score" in cells else None,
        a=a,
        b=b,
        outcome=read_outcome(cells["outcome"], a, b, where) if "outcome" in cells else "",
        tags=tuple(tag for tag in cells.get("tags", "").split(";") if tag),
    )


def _score(text: str, where: str) -> float:
    """A number, a word of the scales of P.800, or both: 4, Good, 4 - Good, Good (4)."""
    label = re.sub(r"\s+", " ", text.casefold())
    number = re.fullmatch(
        r"([-+]?\d+)\s*[-:.=(]*\s*[a-z][a-z ]*\)?|[a-z][a-z ]*(?:\s*[:.=(]\s*|\s-\s|\s)([-+]?\d+)\)?", label
    )
    if label in SCORE_OF:
        return SCORE_OF[label]
    text = (number[1] or number[2]) if number else text
    if not abs(score := parse_number(text, where, "write a score such as 4 or 3.5")) <= MAX_SCORE:
        raise BadFile(f"{where} has the score {text!r:.40}", f"scores may be -{MAX_SCORE} to {MAX_SCORE}")
    return int(score) if score == int(score) else score  # integers, as in campaigns


def _votes(cells: Cells, where: str) -> list[AnswerRow]:
    """The votes of a line with counts."""
    counts = {k: parse_number(cells.get(k) or "0", where) for k in ("wins_a", "wins_b", "ties")}
    if bad := [k for k, n in counts.items() if not 0 <= n <= _MAX_VOTES or n != int(n)]:
        raise BadFile(f"{where} has {cells[bad[0]]!r:.40} {bad[0]}", "a count is a whole number from 0 on")
    out: list[AnswerRow] = []
    for outcome, name in (("a", "wins_a"), ("b", "wins_b"), ("tie", "ties")):
        out += [_row({**cells, "outcome": outcome}, where)] * int(counts[name])
    return out


_PREFERRED = re.compile(  # ``I prefer the second one``, ``B is much better``
    r"(?:(?:i )?prefer(?:red|s)? )?(?:the )?(.+?)(?: one)?"
    r"(?: (?:is|sounds|was))?(?: (?:much|slightly|clearly))?(?: better| preferred)?"
)


def _outcome_of(text: str) -> str | None:
    """The outcome of a word or a short sentence: ``Sample A``, ``B is better``."""
    words = re.sub(r"\s+", " ", text.casefold().rstrip(".! "))
    side = match[1] if (match := _PREFERRED.fullmatch(words)) else words
    return OUTCOME_OF.get(words) or OUTCOME_OF.get(side.replace(" ", "_")) or OUTCOME_OF.get(side)


def _is_tie(text: str, where: str) -> bool:
    if (word := text.casefold()) in ("1", "true", "yes", "y", "tie", "draw"):
        return True
    if word not in ("", "0", "false", "no", "n"):
        raise BadFile(f"{where} has the tie {text!r:.40}", "write 1 for a tie, else 0")
    return False


def read_outcome(text: str, a: str, b: str, where: str) -> str:
    """Parse an outcome (a, b, tie or both_bad) from a known word, or from the name of the preferred system.

    Raises BadFile, naming the line.
    """
    if text in (a, b):  # before the words: a system may be called b
        return "a" if text == a else "b"
    if (outcome := _outcome_of(text)) is None:
        raise BadFile(
            f"{where} has the outcome {text!r:.80}", "write a, b, tie or both_bad, or the name of the preferred system"
        )
    return outcome
