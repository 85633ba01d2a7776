"""``studio train table``: make every net of a paper's tables, measure every row, and lay ours beside the paper's.

Rows are written as they finish, ``rows/<paper>/<row>.json`` under the work folder, and a stopped run goes on behind the
last of them.
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

from rich.console import Console

from studio.bench.material import Setting, desk, read_texts
from studio.bench.tables.definition import Net, Part, Row, TableDefinition, read_table
from studio.bench.tables.measures import Measured
from studio.bench.tables.nets import Workshop, lacking, make, prepare, voice_name, write_recipes
from studio.bench.tables.show import show
from studio.bench.tables.verdicts import figures_of, verdict
from studio.core import durable
from studio.core.errors import BadOption, StudioError
from studio.core.shipped import TABLES
from studio.measure.recognisers.choose import DEFAULT, transcribe_all
from studio.measure.report import describe
from studio.train.recipes.recipe import Recipe
from studio.train.teachers.choose import open_teacher

_NAMED_ROWS = 6  # that an error names


@dataclass(frozen=True, kw_only=True)
class TableSetting:
    """What ``studio train table`` is told.

    Attributes:
        name: of the paper, such as ``000``.
        texts: a file of texts, of which the first ``count`` are spoken by every speaker.
        seeds: trainings of each net, whose seeds follow each other.
        is_taught: whether the teacher is asked too; without it the rows of references are left out.
        only: rows whose names hold this; all where empty.
        without: rows whose names hold this are left out; none where empty.
        rate_share: of the queries a second that a row names, where the machine is slower than the paper's.
    """

    name: str
    shop: Workshop
    texts: Path
    count: int = 50
    seeds: int = 1
    recogniser: str = DEFAULT
    workers: int = 2
    is_taught: bool = True
    only: str = ""
    without: str = ""
    rate_share: float = 1.0
    quiet: bool = False
    tables: Path = TABLES


def make_table(setting: TableSetting) -> dict[str, Any]:
    """Every row's figures beside the paper's, and which of its claims hold here. Raises BadOption, BadFile."""
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
            mine = [found for of, found in work if of == net.name and not (found[1].reference and seed)]
            if not mine:  # another is made from it
                continue
            with desk(_at(setting, name)) as at:  # the teacher has no seeds
                measured = Measured(at, texts, setting.is_taught, setting.shop.threads or 1)
                for part, row in mine:
                    rows[part.place][row.name].append(_row(setting, measured, part, row))
                    if part.measure == "wer":
                        about["recogniser"] = at.recogniser.about
    out = {"paper": table.paper, "title": table.title, "texts": setting.texts.name, "count": len(texts)}
    out |= {"seeds": setting.seeds, "nets": {name: _said(one) for name, one in recipes.items()}, **about}
    if any(part.measure == "queries" and rows[part.place] for part in table.parts):
        out["rate_share"] = setting.rate_share
    out["parts"] = [_summed(part, rows[part.place]) for part in table.parts]
    if not setting.quiet:
        show(out)
    return out


def plan(setting: TableSetting) -> dict[str, Any]:
    """What a run would make: nets with their steps and what they begin from, rows, and what is lacking.

    Nothing is trained or kept. A recogniser's weights are not looked for, for the run itself may fetch them.

    Raises as ``make_table``, but for what is lacking.
    """
    table = read_table(setting.name, setting.tables, setting.shop.recipes, setting.shop.shipped)
    work = _work(table, setting)
    table = replace(table, nets=table.with_needs({net for net, _ in work}))
    with TemporaryDirectory() as folder:
        shop = replace(setting.shop, work=Path(folder))
        recipes = write_recipes(shop, table, setting.seeds)
        missing = [str(error) for error in (*lacking(shop, table, recipes), *_unmeasured(setting, work, recipes))]
    rows = [[part.place, row.name, row.reference or row.net] for _, (part, row) in work]
    begins = {voice_name(net, seed): _begins(net) for net in table.nets for seed in range(setting.seeds)}
    nets = {name: _said(one) | {"begins_from": begins[name]} for name, one in recipes.items()}
    return {"paper": table.paper, "title": table.title, "nets": nets, "rows": rows, "lacking": missing}


def _unmeasured(
    setting: TableSetting, work: Sequence[tuple[str, tuple[Part, Row]]], recipes: Mapping[str, Recipe]
) -> Iterator[StudioError]:
    """What the rows cannot be measured without, and is not at hand: texts, a teacher."""
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
    """What a net goes on from, in words."""
    if net.after:
        return f"{net.after}, taught by {net.teacher}"
    return net.voice or (f"layers of {net.like}" if net.like else "nothing")


def _work(table: TableDefinition, setting: TableSetting) -> list[tuple[str, tuple[Part, Row]]]:
    """Every row that is to be measured, with the net at whose desk it is. Raises BadOption where there is none."""
    if work := [*_asked(table, setting)]:
        return work
    of = f"{setting.only!r:.100}" + (f" and without {setting.without!r:.100}" if setting.without else "")
    names = dict.fromkeys(repr(row.name) for part in table.parts for row in part.rows if row.is_ours)
    raise BadOption(
        f"table {table.paper} has no row of ours with {of} in its name",
        f"leave out --only and --without, or take one of {', '.join([*names][:_NAMED_ROWS])}",
    )


def _asked(table: TableDefinition, setting: TableSetting) -> Iterator[tuple[str, tuple[Part, Row]]]:
    """Every row of ours that is asked for, with its net: references stand at the first one's.

    Rows of a distillation need texts for the teacher to speak.
    """
    for part in table.parts:
        for row in part.rows:
            named = setting.only in row.name and not (setting.without and setting.without in row.name)
            if part.measure == "queries" and row.load:
                row = replace(row, load={**row.load, "per_s": row.load["per_s"] * setting.rate_share})
            asked = row.is_ours and named and (setting.is_taught or not row.reference)
            distilled = bool(row.net and table.net(row.net).teacher)
            if asked and not (distilled and setting.shop.teacher_texts is None):
                yield row.net or table.nets[0].name, (part, row)


def _said(recipe: Recipe) -> dict[str, Any]:
    assert recipe.fit is not None
    return {"family": recipe.fit.family, "steps": recipe.fit.steps, "seed": recipe.seed}


def _at(setting: TableSetting, voice: str) -> Setting:
    """What the desk of a voice is told."""
    return Setting(
        voices=setting.shop.voices,
        voice=voice,
        device=setting.shop.device,
        recogniser=setting.recogniser,
        workers=setting.workers,
        cache=setting.shop.work / "cache",
        quiet=setting.quiet,
    )


def _row(setting: TableSetting, measured: Measured, part: Part, row: Row) -> dict[str, Any]:
    """A row of a voice, from its file where the same was measured before."""
    at = measured.at
    asked: dict[str, Any] = {"row": asdict(row), "measure": part.measure, **at.about()}
    asked |= {"texts": measured.texts, "is_taught": measured.is_taught}
    if part.measure == "wer":
        asked["recogniser"] = at.recogniser.about
    key = hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()
    file = f"{_slug(part.place)}--{_slug(row.name)}--{_slug(at.card.name)}.json"
    path = setting.shop.work / "rows" / setting.name / file
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if known.get("key") == key:
        return known
    _say(setting, f"{at.card.name}: {part.place}, {row.name}")
    measure = {"wer": measured.word_errors, "queries": measured.queries, "cascade": measured.cascade}[part.measure]
    found = measure(row)
    about = {"key": key, "place": part.place, "row": row.name, "voice": at.card.name}
    made = describe(f"table {setting.name}", about | found)
    path.parent.mkdir(parents=True, exist_ok=True)
    durable.replace(path, (json.dumps(made, indent=1, ensure_ascii=False) + "\n").encode())
    return made


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
    """A name as a part of a file's name, told apart from others that read alike."""
    short = re.sub(r"[^a-zA-Z0-9]+", "-", name).strip("-").lower()[:60]
    return f"{short}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def _say(setting: TableSetting, what: str) -> None:
    if not setting.quiet:
        Console(stderr=True).print(what, highlight=False, markup=False)
