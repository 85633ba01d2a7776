"""A paper's tables as data: nets, rows, measurements, the paper's figures and its claims.

They are TOML files in ``assets/tables``, one per paper; ``studio train table`` reproduces them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from studio.bench.speed import cascade
from studio.core.checks import build, is_file_name
from studio.core.errors import BadOption, bad_file
from studio.core.files import read_toml
from studio.core.folders import RECIPES, TABLES, VOICES

# Figures of each measurement, and whether larger is better.
FIGURES: dict[str, dict[str, bool]] = {
    "wer": {"wer": False},
    "queries": {"first_ms": False, "last_ms": False, "rtf": False, "x_real_time": True},
    "cascade": dict.fromkeys(cascade.FIGURES, False),
}
REFERENCES = ("teacher", "dmel")
_LOADS: dict[str, dict[str, type]] = {
    "queries": {"per_s": float, "seconds": float, "places": int, "kind": str, "arrivals": str},
    "cascade": {"first_word_ms": float, "word_ms": float},
}


@dataclass(frozen=True, kw_only=True)
class Net:
    """One training.

    Attributes:
        recipe: a file of ``assets/recipes``; ``change`` overrides its settings, with the same nesting.
        voice: instead, a shipped voice whose recipe and weights are used; training continues from them.
        like: a shipped voice of another family whose layers initialise it.
        vocoder: name of one vocoder, empty for all. ``vocoder_config`` overrides its configuration.
        after, teacher: for distillation (paper 001), earlier nets: the student's start, and the T5-TTS teacher.
    """

    name: str
    recipe: str = ""
    voice: str = ""
    like: str = ""
    after: str = ""
    teacher: str = ""
    change: dict[str, Any] = field(default_factory=dict)
    vocoder: str = ""
    vocoder_config: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a table.

    Attributes:
        net: the speaking net; empty if only the paper's figures are shown.
        reference: ``teacher`` or ``dmel``, the training speech instead of a net.
        options: options of the family.
        load: for queries per_s, seconds, places, kind and arrivals, as in ``studio bench load``; for a cascade
            first_word_ms and word_ms, as in ``studio bench cascade``.
        paper: the paper's figures by name.
    """

    name: str
    net: str = ""
    reference: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    load: dict[str, Any] = field(default_factory=dict)
    paper: dict[str, float] = field(default_factory=dict)

    @property
    def is_ours(self) -> bool:
        """Whether the row is measured here."""
        return bool(self.net or self.reference)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim of the paper: row ``better`` has a better ``figure`` than row ``worse``."""

    says: str
    better: str
    worse: str
    figure: str


@dataclass(frozen=True, kw_only=True)
class Part:
    """One table of a paper."""

    place: str  # location in the paper
    measure: str  # one of ``FIGURES``
    differs: str  # how the measurement here differs, as a sentence
    rows: list[Row]
    claims: list[Claim]

    def row(self, name: str) -> Row:
        """The row of an existing name."""
        return next(one for one in self.rows if one.name == name)


@dataclass(frozen=True, kw_only=True)
class TableDefinition:
    """A paper's tables, and the nets that they compare."""

    paper: str
    title: str
    nets: list[Net]
    parts: list[Part]

    def with_needs(self, wanted: set[str]) -> list[Net]:
        """The nets of these names with those that they depend on, in order."""
        wanted = wanted | {need for net in self.nets if net.name in wanted for need in (net.after, net.teacher)}
        return [net for net in self.nets if net.name in wanted]

    def net(self, name: str) -> Net:
        """The net of an existing name."""
        return next(one for one in self.nets if one.name == name)


def table_names(folder: Path = TABLES) -> list[str]:
    """Papers with table definitions."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def read_table(name: str, folder: Path = TABLES, recipes: Path = RECIPES, voices: Path = VOICES) -> TableDefinition:
    """The tables of a paper. Raises BadOption, BadFile."""
    if name not in table_names(folder):
        raise BadOption(f"there is no table {name!r:.100}", f"there are {', '.join(table_names(folder)) or 'none'}")
    path = folder / f"{name}.toml"
    with bad_file(f"the table {path} cannot be read", "restore it from the repository", ValueError):
        data = read_toml(path)
    nets = [build(Net, one, "nets") for one in _listed(data, "nets", "table")]
    parts = [_part(one) for one in _listed(data, "parts", "table")]
    table = build(TableDefinition, {**data, "nets": nets, "parts": parts}, "table")
    _check(table, recipes, voices)
    return table


def _listed(data: dict[str, Any], name: str, where: str) -> list[dict[str, Any]]:
    """Remove and return the list of tables under a name. Raises BadOption if it is something else."""
    tables = data.pop(name, [])
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in cast("list[Any]", tables)):
        raise BadOption(f"[{where}] {name} cannot be {tables!r:.80}", "it is a list of tables")
    return cast("list[dict[str, Any]]", tables)


def _part(data: dict[str, Any]) -> Part:
    where = f"parts {data.get('place', '')!s:.40}"
    measure = data.get("measure", "")
    if not isinstance(measure, str) or measure not in FIGURES:
        raise BadOption(f"[{where}] measure cannot be {measure!r:.40}", f"it is one of {', '.join(FIGURES)}")
    first = next(iter(FIGURES[measure]))
    rows = [build(Row, one, f"{where}.rows") for one in _listed(data, "rows", where)]
    claims = [build(Claim, {"figure": first, **one}, f"{where}.claims") for one in _listed(data, "claims", where)]
    return build(Part, {"differs": "", **data, "rows": rows, "claims": claims}, where)


def _check(table: TableDefinition, recipes: Path, voices: Path) -> None:
    nets = _once([one.name for one in table.nets], "nets")
    for net in table.nets:
        if bool(net.recipe) == bool(net.voice):
            raise BadOption(f"net {net.name!r} has a recipe and a voice, or neither", "name one of them")
        if not is_file_name(net.name):
            raise BadOption(f"no net can be called {net.name!r:.100}", "use letters, digits, _, - and dots")
        if net.recipe and not (is_file_name(net.recipe) and (recipes / net.recipe).is_file()):
            raise BadOption(f"net {net.name!r} has no recipe {net.recipe!r}", f"it is a file of {recipes}")
        for voice in filter(None, (net.voice, net.like)):
            if not (is_file_name(voice) and (voices / voice / "recipe.toml").is_file()):
                raise BadOption(f"net {net.name!r} is of no voice {voice!r:.100}", f"it is a folder of {voices}")
        earlier = [one.name for one in table.nets[: table.nets.index(net)]]
        if bool(net.after) != bool(net.teacher) or not {net.after, net.teacher} - {""} <= {*earlier}:
            raise BadOption(f"net {net.name!r} is taught by no nets before it", "name one as after, one as teacher")
    for part in table.parts:
        names = _once([one.name for one in part.rows], part.place)
        figures = FIGURES[part.measure]
        for row in part.rows:
            _check_row(row, part, nets)
        for claim in part.claims:
            if not {claim.better, claim.worse} <= names or claim.figure not in figures:
                raise BadOption(f"the claim {claim.says!r:.100} is of no rows or figures", "name rows of its part")
            better, worse = (part.row(one).paper.get(claim.figure) for one in (claim.better, claim.worse))
            if better is None or worse is None or (better > worse) != figures[claim.figure] or better == worse:
                raise BadOption(f"the paper's figures do not say {claim.says!r:.100}", "state what they say")


def _check_row(row: Row, part: Part, nets: set[str]) -> None:
    if row.net and row.net not in nets:
        raise BadOption(f"row {row.name!r} is of no net {row.net!r}", f"there are {', '.join(sorted(nets))}")
    if row.reference and (row.net or row.reference not in REFERENCES or part.measure != "wer"):
        raise BadOption(
            f"row {row.name!r} cannot have the reference {row.reference!r}",
            f"it is {' or '.join(REFERENCES)}, of word errors, without a net",
        )
    if unknown := sorted({*row.paper} - {*FIGURES[part.measure]}):
        raise BadOption(
            f"row {row.name!r} has no figure {unknown[0]!r}", f"there are {', '.join(FIGURES[part.measure])}"
        )
    if (kinds := _LOADS.get(part.measure)) and row.net:
        wrong = [name for name, kind in kinds.items() if not isinstance(row.load.get(name), kind)]
        if wrong or {*row.load} - {*kinds}:
            raise BadOption(f"row {row.name!r} does not say its load", f"it needs {', '.join(kinds)}")


def _once(names: Sequence[str], where: str) -> set[str]:
    if twice := [one for one in names if names.count(one) > 1]:
        raise BadOption(f"[{where}] has {twice[0]!r} twice", "give each a name of its own")
    return {*names}
