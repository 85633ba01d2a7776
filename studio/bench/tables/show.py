"""Print a paper's tables: the paper's figures, ours, and the claims."""

from collections.abc import Mapping
from typing import Any

from studio.bench.tables.definition import FIGURES
from studio.bench.tables.verdicts import HOLDS, TURNED
from studio.measure.report import console, print_table, recogniser_name

_TITLES = {"wer": "WER", "first_ms": "first audio, ms", "last_ms": "last audio, ms", "rtf": "rtf"}
_TITLES |= {"e2e_ms": "question to first sound, ms", "llm_ms": "of which language model, ms"}


def show(out: Mapping[str, Any]) -> None:
    """Print the tables, fresh or read back from bench/results."""
    for part in out["parts"]:
        is_heard = part["measure"] == "wer"
        figures = [*FIGURES[part["measure"]]]
        printed = {
            figure for row in part["rows"] for figure in row["paper"]
        }  # figures that the paper reports in this part
        shown = [(one, who) for one in figures for who in ("paper", "ours") if who == "ours" or one in printed]
        columns = ["", *(f"{who}: {_title(one)}" for one, who in shown)]
        if is_heard:
            columns.append("95%" if out["seeds"] == 1 else f"95%, and each of {out['seeds']} seeds")
        rows = []
        for row in part["rows"]:
            ours = {name: one.get("value") for name, one in row["ours"].items()}
            said = {"paper": row["paper"], "ours": ours}
            cells = [_written(figure, said[who].get(figure)) for figure, who in shown]
            rows.append([row["name"], *cells, *([_spread(row["ours"])] if is_heard else [])])
        heard = f", heard by {recogniser_name(out)}" if is_heard and "recogniser" in out else ""
        otherwise = f" Measured differently: {part['differs']}." if part["differs"] else ""
        share = out.get("rate_share", 1.0) if part["measure"] == "queries" else 1.0
        slower = f" Queries arrived at {share:g} times the rate that the table names." if share != 1.0 else ""
        note = f"Ours: {out['count']} texts of {out['texts']}{heard}.{otherwise}{slower}"
        print_table(f"{part['place']} of paper {out['paper']}: {out['title']}", columns, rows, note)
        _show_claims(part)


def show_plan(found: Mapping[str, Any]) -> None:
    """Print what a run would train and measure, and its missing inputs."""
    nets = [(name, one["family"], one["steps"], one["seed"], one["begins_from"]) for name, one in found["nets"].items()]
    print_table(
        f"Nets of paper {found['paper']}: {found['title']}", ("", "family", "steps", "seed", "begins from"), nets
    )
    print_table("Rows", ("part", "row", "measured of"), found["rows"])
    for one in found["lacking"]:
        console().print(f"Lacking: {one}", highlight=False, markup=False)


def _show_claims(part: Mapping[str, Any]) -> None:
    if not part["claims"]:
        return
    rows = []
    for one in part["claims"]:
        gain = one["gain"]
        said = "" if gain is None else f"{gain['value']:+.3f} ({_span(gain)})"
        rows.append([one["says"], f"{one['paper']:+.3f}", said, judged(one)])
    note = "gain of the row that the paper calls better; an interval that contains 0 is inconclusive"
    print_table(f"What {part['place']} says", ("", "paper", "ours (95%)", "ours is"), rows, note)
    for sentence in contradicted_claims(part):
        console().print(sentence, highlight=False, markup=False)


def judged(one: Mapping[str, Any]) -> str:
    """A verdict, marked if it compares single runs."""
    is_once = one["holds"] in (HOLDS, TURNED) and one["gain"]["low"] == one["gain"]["high"]
    return f"{one['holds']}, in one run" if is_once else one["holds"]


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


def _title(figure: str) -> str:
    return _TITLES.get(figure, figure.replace("_", " "))


def _spread(ours: Mapping[str, Any]) -> str:
    if not ours:
        return ""
    wer = ours["wer"]
    seeds = f"; {', '.join(f'{one:.3f}' for one in wer['seeds'])}" if len(wer["seeds"]) > 1 else ""
    return f"{wer['low']:.3f}-{wer['high']:.3f}{seeds}"
