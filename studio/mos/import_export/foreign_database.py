"""Opens another studio's database read-only, and validates every row of it before a merge.

SQLite does not enforce column types, and the file may have been edited by hand.
"""

import sqlite3
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationError, create_model
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlmodel import Session, SQLModel, col, select

from studio.core.checks import MAX_WHOLE
from studio.core.errors import BadFile, BadOption
from studio.mos.campaign.config import campaign_config
from studio.mos.campaign.manifest import ManifestBuilder
from studio.mos.campaign.names import blaming, check_name
from studio.mos.kinds.registry import kind_of
from studio.mos.sessions.parts import END_STAGES, ordered_stages
from studio.mos.sessions.takes import MAX_CHARS, MAX_STROKES
from studio.mos.store.database import STUDIO_TABLES, Store, schema_version
from studio.mos.store.json_columns import is_object, read_json
from studio.mos.store.migrations import MIGRATIONS
from studio.mos.store.tables import (
    Answer,
    Campaign,
    Choice,
    Clip,
    Item,
    Look,
    Passage,
    Play,
    Prediction,
    Rater,
    Removal,
    Score,
    Slot,
    Stimulus,
    System,
    Take,
    Trial,
)

_LATEST_S = 253_402_300_799.0  # the last second of the year 9999
_BATCH = 500
_WHERE = "the other database"


def _whole(low: int, high: int = MAX_WHOLE) -> Any:
    return Annotated[int, Field(ge=low, le=high)]


def _number(low: float, high: float) -> Any:
    return Annotated[float, Field(ge=low, le=high, allow_inf_nan=False)]


def _like(pattern: str, longest: int | None = None) -> Any:
    return Annotated[str, Field(pattern=f"^(?:{pattern})$", max_length=longest)]


def _text(longest: int) -> Any:
    return _like(r"[^\x00]*", longest)


class _Keystroke(BaseModel, extra="forbid", allow_inf_nan=False):
    at_ms: float = Field(ge=0, le=1e12)
    at: int = Field(ge=0, le=MAX_CHARS)
    remove: int = Field(ge=0, le=MAX_CHARS)
    insert: str = Field(max_length=MAX_CHARS, pattern=r"^[^\x00]*$")


class _Typing(BaseModel, extra="forbid", allow_inf_nan=False):
    strokes: list[_Keystroke] = Field(max_length=MAX_STROKES)
    end_ms: float = Field(ge=0, le=1e12)


def _is_typing(value: str) -> str:
    read_json(value)
    _Typing.model_validate_json(value, strict=True)
    return value


def _is_object(value: str) -> str:
    if not is_object(value):
        raise ValueError("no object of this studio")
    return value


_SHA, _SCREEN, _TIME_S = _like("[0-9a-f]{64}"), _like("[0-9a-f]{8,64}"), _number(0.0, _LATEST_S)
_TIME_MS = _number(0.0, 1e12)
_VERDICT, _SLOT = Literal["ok", "fail", "unknown"], _whole(0, 63)
_LEVEL = _number(-1000.0, 1000.0)
_PSEUDONYM = _like("[A-Za-z0-9_-]{1,40}")
_OBJECT = Annotated[str, AfterValidator(_is_object)]
_COLUMNS: Mapping[type[SQLModel], Mapping[str, Any]] = {
    Campaign: {
        "name": str,
        "config": str,
        "state": Literal["draft", "open", "closed"],
        "seed": _whole(0),
        "created_at": _TIME_S,
    },
    System: {"name": str, "voice": _OBJECT, "role": str},
    Item: {"name": str, "text": str, "role": str, "tags": str, "expected": str | None},
    Look: {"raters": _whole(0), "met": _whole(0, 1), "why": _text(4000), "at": _TIME_S},
    Clip: {"rate_hz": _whole(1, 768_000), "samples": _whole(0), "derived_from": _SHA | None},
    Stimulus: {
        "clip_sha": _SHA,
        "source_rate_hz": _whole(1, 768_000),
        **dict.fromkeys(("gain_db", "lufs_before", "lufs_after", "peak_dbfs"), _LEVEL),
        "trace": _SHA | None,
    },
    Prediction: {
        "clip_sha": _SHA,
        "weights": _SHA,
        "predictor": _like("[A-Za-z0-9_][A-Za-z0-9_ .+-]{0,79}"),
        "version": _like("[A-Za-z0-9_ .+!-]{1,80}"),
        "mos": _number(1.0, 5.0),
        "at": _TIME_S,
    },
    Rater: {
        "identity": _text(2000),
        "pseudonym": _PSEUDONYM,
        "role": Literal["panel", "preview"],
        "part": _whole(1, 1000),
        "consent_version": _whole(-(2**31), 2**31) | None,
        "panel": _OBJECT,
        "device": _OBJECT,
        "joined_at": _TIME_S,
        "seen_at": _TIME_S,
        "finished_at": _TIME_S | None,
        "accept": _VERDICT,
        "use": _VERDICT,
    },
    Passage: {"stage": _text(40), "verdict": _VERDICT, "at": _TIME_S, "data": _OBJECT},
    Removal: {"pseudonym": _PSEUDONYM, "answers": _whole(0), "at": _TIME_S, "person": _like("(?:[0-9a-f]{64})?")},
    Trial: {
        "id": _SCREEN,
        "position": _whole(0, 1_000_000),
        "role": Literal["test", "training", "trap", "gold", "repeat"],
        "unit": _text(4000),
        "issued_at": _TIME_S | None,
        "released": _whole(0, 1),
    },
    Slot: {"slot": _SLOT, "place": Literal["candidate", "reference"]},
    Take: {
        "slot": _SLOT,
        "number": _whole(0),
        "at": _TIME_S,
        "typed": Annotated[str, AfterValidator(_is_typing)],
        "trace": _SHA,
        "rate_hz": _whole(1, 768_000),
        "samples": _whole(0),
        "latency_ms": _number(-1e12, 1e12) | None,
        "late_ms": _TIME_MS,
        "script": _like("(?:typed-[0-9a-f]{16})?"),
    },
    Answer: {
        "attempt": _whole(1),
        "counted": _whole(0, 1),
        "received_at": _TIME_S,
        "response_ms": _TIME_MS,
        "comment": _text(4000),
        "digest": _like("[0-9a-f]{1,128}"),
        "missing": Literal["", "late", "failed", "mute"],
    },
    Score: {"question": _text(80), "slot": _SLOT, **dict.fromkeys(("value", "low", "high"), _whole(-100, 100))},
    Choice: {"question": _text(80), "outcome": Literal["a", "b", "tie", "both_bad"]},
    Play: {"slot": _SLOT, "plays": _whole(0, 10_000), "heard_ms": _TIME_MS},
}
_ROWS = {table: create_model(table.__name__, **columns) for table, columns in _COLUMNS.items()}


def check_campaigns(theirs: Session, campaigns: Sequence[Campaign]) -> None:
    """Raises BadFile for a row of these campaigns that the studio could not have written."""
    for campaign in campaigns:
        try:
            with blaming("in the other database"):
                _check_campaign(theirs, campaign)
        except SQLAlchemyError as error:
            raise BadFile("the other database cannot be read whole", "restore a backup of it") from error


def _check_campaign(theirs: Session, campaign: Campaign) -> None:
    _check(campaign)
    check_name(campaign.name)
    try:
        read_json(campaign.config)
    except ValueError as error:
        raise _bad(campaign, "config", campaign.config) from error
    config = campaign_config(campaign)
    kind_of(config.kind).check(config)
    _hold(campaign, "kind", campaign.kind == config.kind)
    steps = {*ordered_stages(config), *END_STAGES}
    orders = ("", *kind_of(config.kind).orders)

    def rows(table: Any) -> list[Any]:
        return list(theirs.exec(select(table).where(table.campaign_id == campaign.id)))

    systems, items, stimuli = rows(System), rows(Item), rows(Stimulus)
    raters, trials = rows(Rater), rows(Trial)
    for row in (*systems, *items, *stimuli, *rows(Look), *rows(Removal), *raters, *trials):
        _check(row)
    draft = ManifestBuilder(Path())  # systems and scripts obey the rules of manifests
    for system in systems:
        draft.add_system(_WHERE, system.name, system.role, new=True)
    for item in items:
        draft.add_item(_WHERE, item.name, item.text, item.role, item.expected, item.tags, new=True)
    for rater in raters:
        _hold(rater, "stage", rater.stage in steps)
    tables = {System: systems, Item: items, Stimulus: stimuli, Rater: raters}
    ids = {table: {row.id for row in among} for table, among in tables.items()}
    for stimulus in stimuli:
        _hold(stimulus, "item_id", stimulus.item_id in ids[Item])
        _hold(stimulus, "system_id", stimulus.system_id in ids[System])
        clip = theirs.get(Clip, stimulus.clip_sha)
        if clip is None:
            raise _bad(stimulus, "clip_sha", stimulus.clip_sha)
        _check(clip)
    _check_all(theirs, Prediction, col(Prediction.clip_sha), [stimulus.clip_sha for stimulus in stimuli])
    for trial in trials:
        _hold(trial, "rater_id", trial.rater_id in ids[Rater])
        _hold(trial, "lead", trial.lead in ids[Stimulus])
        _hold(trial, "item_id", trial.item_id in ids[Item])
        _hold(trial, "asked", trial.asked in orders)
    _check_all(theirs, Passage, col(Passage.rater_id), [rater.id for rater in raters])
    trial_ids = [trial.id for trial in trials]
    for slot in _check_all(theirs, Slot, col(Slot.trial_id), trial_ids):
        _hold(slot, "stimulus_id", slot.stimulus_id in ids[Stimulus])
    _check_all(theirs, Take, col(Take.trial_id), trial_ids)
    answers = [answer.id for answer in _check_all(theirs, Answer, col(Answer.trial_id), trial_ids)]
    for table in (Score, Choice, Play):
        _check_all(theirs, table, col(table.answer_id), answers)


def _check_all(theirs: Session, table: Any, column: Any, keys: list[Any]) -> list[Any]:
    """Select and check all rows whose column is one of the keys."""
    found: list[Any] = []
    for start in range(0, len(keys), _BATCH):
        found += theirs.exec(select(table).where(column.in_(keys[start : start + _BATCH])))
    for row in found:
        _check(row)
    return found


def _check(row: SQLModel) -> None:
    model = _ROWS[type(row)]
    try:
        model.model_validate({name: getattr(row, name) for name in model.model_fields}, strict=True)
    except ValidationError as error:
        column = str(error.errors()[0]["loc"][0])
        raise _bad(row, column, getattr(row, column)) from error


def _hold(row: SQLModel, column: str, good: bool) -> None:
    if not good:
        raise _bad(row, column, getattr(row, column))


def _bad(row: SQLModel, column: str, value: object) -> BadFile:
    return BadFile(
        f"the other database has a {type(row).__name__.lower()} whose {column} is {value!r:.80}",
        "no studio wrote that: restore a backup of it, or take single campaigns with --name",
    )


@contextmanager
def open_other_database(other: str) -> Generator[tuple[Store, Path | None]]:
    """Open another studio's database and its clip folder, without changing them.

    A SQLite file is copied first; a database on a server must have this version's schema. Raises BadFile, BadOption: it
    is missing, or not a studio's database.
    """
    try:
        url = make_url(other) if "://" in other else None
    except ArgumentError as error:
        raise BadOption(f"{other!r} is not a database address", "give a file, or postgresql://...") from error
    if url is not None and url.get_backend_name() != "sqlite":
        _check_schema(schema_version(other), url.render_as_string(hide_password=True))
        store = Store(other)
        try:
            yield store, None
        finally:
            store.close()
        return
    file = Path(other if url is None else url.database or "")
    if not file.is_file():
        raise BadFile(f"there is no database {file}", "give the file studio.sqlite of the other data folder")
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "other.sqlite"
        _copy(file, copy)
        store = Store(f"sqlite:///{copy}")
        try:
            yield store, file.parent / "clips"
        finally:
            store.close()


def _check_schema(schema: int | None, name: str) -> None:
    """Check the schema before opening, which would migrate the database. Raises BadFile."""
    if schema is None:
        raise BadFile(f"{name} holds no listening tests", "check its name and its schema")
    if schema < len(MIGRATIONS):
        raise BadFile(
            f"{name} has schema {schema}, this studio reads {len(MIGRATIONS)}; another's database is not changed",
            "let its owner open it once with a studio of this version",
        )


def _copy(file: Path, copy: Path) -> None:
    """Copy a database, which may be in use."""
    try:
        source, target = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True), sqlite3.connect(copy)
        try:
            found = list(source.execute("SELECT type, name FROM sqlite_master"))
            if not {name for kind, name in found if kind == "table"} >= STUDIO_TABLES:
                raise BadFile(
                    f"{file} holds no listening tests", "give the file studio.sqlite of the other data folder"
                )
            if views := [name for kind, name in found if kind == "view"]:
                raise BadFile(
                    f"{file} holds the view {views[0]!r:.80}, which no studio makes", "restore a backup of it"
                )
            source.backup(target)
            for name in (
                name for kind, name in found if kind == "trigger"
            ):  # ours only guard writes, which do not happen here
                target.execute(f'DROP TRIGGER "{name.replace(chr(34), chr(34) * 2)}"')
        finally:
            source.close()
            target.close()
    except sqlite3.Error as error:
        raise BadFile(
            f"{file} cannot be read: {error}", "give the file studio.sqlite of the other data folder"
        ) from error
