"""``studio train table``: train every net of a paper's tables, and measure every row beside the paper's.

Finished rows are written to ``rows/<paper>/<row>.json`` in the work folder, from which a stopped run resumes.
"""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from studio.bench.material import evaluation_run, read_texts
from studio.bench.options import Setting
from studio.bench.tables.definition import Net, Part, Row, TableDefinition, read_table
from studio.bench.tables.figures import VoiceMeasurement, figures_of, verdict
from studio.bench.tables.nets import TableWorkspace, make, missing_inputs, prepare, voice_name, write_recipes
from studio.core import durable
from studio.core.errors import BadOption, StudioError
from studio.core.folders import TABLES
from studio.measure.recognisers.registry import DEFAULT, transcribe_all
from studio.measure.report import console, describe
from studio.train.recipes.recipe import Recipe
from studio.train.teachers.registry import open_teacher

_NAMED_ROWS = 6  # rows that an error names


@dataclass(frozen=True, kw_only=True)
class TableSetting:
    """Parameters of ``studio train table``."""

    name: str  # of the paper, such as ``000``
    shop: TableWorkspace
    texts: Path  # a file of texts; every speaker speaks the first ``count``
    count: int = 50
    seeds: int = 1  # trainings of each net, with consecutive seeds
    recogniser: str = DEFAULT
    workers: int = 2
    is_taught: bool = True  # whether to measure the teacher; without it, reference rows are left out
    only: str = ""  # substring of row names to measure; empty for all
    without: str = ""  # substring of row names to leave out; empty for none
    rate_share: float = 1.0  # factor on the rows' queries a second, for machines slower than the paper's
    quiet: bool = False
    tables: Path = TABLES


def make_table(setting: TableSetting) -> dict[str, Any]:
    """Measure every row, and check the paper's claims. Raises BadOption, BadFile."""
    table = read_table(setting.name, setting.tables, setting.shop.recipes, setting.shop.shipped)
    texts = read_texts(setting.texts, setting.count)
    work = _work(table, setting)
    table = replace(table, nets=table.with_needs({net for net, _ in work}))
    recipes = prepare(setting.shop, table, setting.seeds)
    hear = partial(transcribe_all, recogniser=setting.recogniser, workers=setting.workers)
    rows: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    about: dict[str, Any] = {}
    for net in table.nets:
        for seed in range(setting.seeds):
            name = voice_name(net, seed)
            _say(setting, f"{name}: fitting and packing")
            make(setting.shop, table, net, seed, recipes, hear)
            mine = [part_row for of, part_row in work if of == net.name and not (part_row[1].reference and seed)]
            if not mine:  # another net depends on it
                continue
            with evaluation_run(_at(setting, name)) as at:  # the teacher has no seeds
                measured = VoiceMeasurement(at, texts, setting.is_taught, setting.shop.threads or 1)
                for part, row in mine:
                    rows[part.place][row.name].append(_row(setting, measured, part, row))
                    if part.measure == "wer":
                        about["recogniser"] = at.recogniser.about
    out = {"paper": table.paper, "title": table.title, "texts": setting.texts.name, "count": len(texts)}
    out |= {"seeds": setting.seeds, "nets": {name: _described(one) for name, one in recipes.items()}, **about}
    if any(part.measure == "queries" and rows[part.place] for part in table.parts):
        out["rate_share"] = setting.rate_share
    out["parts"] = [_summed(part, rows[part.place]) for part in table.parts]
    return out


def plan(setting: TableSetting) -> dict[str, Any]:
    """What a run would do: nets with steps and initial weights, rows, and missing inputs.

    Nothing is trained or written. Recogniser weights are not checked, since a run can download them.

    Raises as ``make_table``, except for missing inputs.
    """
    table = read_table(setting.name, setting.tables, setting.shop.recipes, setting.shop.shipped)
    work = _work(table, setting)
    table = replace(table, nets=table.with_needs({net for net, _ in work}))
    with TemporaryDirectory() as folder:
        shop = replace(setting.shop, work=Path(folder))
        recipes = write_recipes(shop, table, setting.seeds)
        missing = [
            str(error) for error in (*missing_inputs(shop, table, recipes), *_unmeasured(setting, work, recipes))
        ]
    rows = [[part.place, row.name, row.reference or row.net] for _, (part, row) in work]
    begins = {voice_name(net, seed): _begins(net) for net in table.nets for seed in range(setting.seeds)}
    nets = {name: _described(one) | {"begins_from": begins[name]} for name, one in recipes.items()}
    return {"paper": table.paper, "title": table.title, "nets": nets, "rows": rows, "lacking": missing}


def _unmeasured(
    setting: TableSetting, work: Sequence[tuple[str, tuple[Part, Row]]], recipes: Mapping[str, Recipe]
) -> Iterator[StudioError]:
    """Missing inputs of the measurements: texts, a teacher."""
    corpus = next(iter(recipes.values())).corpus  # which all nets share
    checks: list[Callable[[], object]] = [lambda: read_texts(setting.texts, setting.count)]
    if setting.is_taught and any(part.measure == "wer" for _, (part, _) in work):
        checks.append(lambda: [*open_teacher(corpus.teacher).speak(corpus.speakers[0], ["Yes."])])
    for check in checks:
        try:
            check()
        except StudioError as error:
            yield error


def _begins(net: Net) -> str:
    """The initial weights of a net, as text."""
    if net.after:
        return f"{net.after}, taught by {net.teacher}"
    return net.voice or (f"layers of {net.like}" if net.like else "nothing")


def _work(table: TableDefinition, setting: TableSetting) -> list[tuple[str, tuple[Part, Row]]]:
    """Rows to measure, each with the net whose voice is used. Raises BadOption if there are none."""
    if work := [*_selected_rows(table, setting)]:
        return work
    of = f"{setting.only!r:.100}" + (f" and without {setting.without!r:.100}" if setting.without else "")
    names = dict.fromkeys(repr(row.name) for part in table.parts for row in part.rows if row.is_ours)
    raise BadOption(
        f"table {table.paper} has no row of ours with {of} in its name",
        f"omit --only and --without, or use one of {', '.join([*names][:_NAMED_ROWS])}",
    )


def _selected_rows(table: TableDefinition, setting: TableSetting) -> Iterator[tuple[str, tuple[Part, Row]]]:
    """Selected rows with their nets; references use the first net. Distilled rows need texts for the teacher."""
    for part in table.parts:
        for row in part.rows:
            named = setting.only in row.name and not (setting.without and setting.without in row.name)
            if part.measure == "queries" and row.load:
                row = replace(row, load={**row.load, "per_s": row.load["per_s"] * setting.rate_share})
            is_selected = row.is_ours and named and (setting.is_taught or not row.reference)
            distilled = bool(row.net and table.net(row.net).teacher)
            if is_selected and not (distilled and setting.shop.teacher_texts is None):
                yield row.net or table.nets[0].name, (part, row)


def _described(recipe: Recipe) -> dict[str, Any]:
    assert recipe.fit is not None
    return {"family": recipe.fit.family, "steps": recipe.fit.steps, "seed": recipe.seed}


def _at(setting: TableSetting, voice: str) -> Setting:
    """Evaluation parameters of a voice."""
    return Setting(
        voices=setting.shop.voices,
        voice=voice,
        device=setting.shop.device,
        recogniser=setting.recogniser,
        workers=setting.workers,
        cache=setting.shop.work / "cache",
        quiet=setting.quiet,
    )


def _row(setting: TableSetting, measured: VoiceMeasurement, part: Part, row: Row) -> dict[str, Any]:
    """Measure a row of a voice, or read its file if it was measured before."""
    at = measured.at
    inputs: dict[str, Any] = {"row": asdict(row), "measure": part.measure, **at.about()}
    inputs |= {"texts": measured.texts, "is_taught": measured.is_taught}
    if part.measure == "wer":
        inputs["recogniser"] = at.recogniser.about
    key = hashlib.sha256(json.dumps(inputs, sort_keys=True, default=str).encode()).hexdigest()
    file = f"{_slug(part.place)}--{_slug(row.name)}--{_slug(at.card.name)}.json"
    path = setting.shop.work / "rows" / setting.name / file
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if known.get("key") == key:
        return known
    _say(setting, f"{at.card.name}: {part.place}, {row.name}")
    measure = {"wer": measured.word_errors, "queries": measured.queries, "cascade": measured.cascade}[part.measure]
    figures = measure(row)
    about = {"key": key, "place": part.place, "row": row.name, "voice": at.card.name}
    row_figures = describe(f"table {setting.name}", about | figures)
    path.parent.mkdir(parents=True, exist_ok=True)
    durable.replace(path, (json.dumps(row_figures, indent=1, ensure_ascii=False) + "\n").encode())
    return row_figures


def _summed(part: Part, measured: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    return {
        "place": part.place,
        "measure": part.measure,
        "differs": part.differs,
        "rows": [
            {"name": row.name, "paper": row.paper, "ours": figures_of(part, measured.get(row.name, ()))}
            for row in part.rows
        ],
        "claims": [verdict(part, claim, measured) for claim in part.claims],
    }


def _slug(name: str) -> str:
    """A unique file name for a row's name."""
    short = re.sub(r"[^a-zA-Z0-9]+", "-", name).strip("-").lower()[:60]
    return f"{short}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def _say(setting: TableSetting, what: str) -> None:
    if not setting.quiet:
        console(stderr=True).print(what, highlight=False, markup=False)
