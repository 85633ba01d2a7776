"""Validates every row of another studio's database before a merge.

SQLite does not enforce column types, and the file may have been edited by hand.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import sqlalchemy as sa
from pydantic import AfterValidator, BaseModel, Field, ValidationError, create_model
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import Session, SQLModel

from studio.core.checks import MAX_WHOLE
from studio.core.errors import BadFile
from studio.mos.campaign.config import campaign_config
from studio.mos.campaign.manifest import MAX_FILES, MAX_ITEMS, MAX_SYSTEMS, ManifestBuilder
from studio.mos.campaign.names import blaming, check_name
from studio.mos.kinds.registry import kind_of
from studio.mos.sessions.parts import END_STAGES, ordered_stages
from studio.mos.sessions.takes import MAX_CHARS, MAX_STROKES
from studio.mos.store.json_columns import is_object, read_json
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
_BATCH = 20  # rows in memory, each of up to MAX_CELL_BYTES
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


_SHA, _TRIAL_ID, _TIME_S = _like("[0-9a-f]{64}"), _like("[0-9a-f]{8,64}"), _number(0.0, _LATEST_S)
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
        "id": _TRIAL_ID,
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
# The column that names a row's owner, and how many rows one owner may have.
_OWNERS: Mapping[type[SQLModel], tuple[str, int]] = {
    System: ("campaign_id", MAX_SYSTEMS),
    Item: ("campaign_id", MAX_ITEMS),
    Stimulus: ("campaign_id", MAX_FILES),
    Look: ("campaign_id", 10_000),
    Removal: ("campaign_id", 100_000),
    Rater: ("campaign_id", 200_000),
    Trial: ("campaign_id", 20_000),  # of one rater
    Passage: ("rater_id", 20_000),
    Slot: ("trial_id", 64),
    Take: ("trial_id", 10_000),
    Answer: ("trial_id", 1_000),
    **dict.fromkeys((Score, Choice, Play), ("answer_id", 10_000)),
    Clip: ("sha", 1),
    Prediction: ("clip_sha", 1_000),
}
_ROWS = {table: create_model(table.__name__, **columns) for table, columns in _COLUMNS.items()}


def check_campaigns(theirs: Session, campaigns: Iterable[Campaign]) -> None:
    """Raises BadFile for a row of these campaigns that the studio could not have written."""
    for campaign in campaigns:
        try:
            with blaming("in the other database"):
                _check_campaign(theirs, campaign)
        except SQLAlchemyError as error:
            raise BadFile("the other database cannot be read whole", "restore a backup of it") from error


def _check_campaign(theirs: Session, campaign: Campaign) -> None:
    _check(Campaign, campaign)
    check_name(campaign.name)
    try:
        read_json(campaign.config)
    except ValueError as error:
        raise _bad(Campaign, "config", campaign.config) from error
    config = campaign_config(campaign)
    kind_of(config.kind).check(config)
    _hold(Campaign, campaign, "kind", campaign.kind == config.kind)
    steps = {*ordered_stages(config), *END_STAGES}
    orders = ("", *kind_of(config.kind).orders)
    rows = _CampaignRows(theirs, campaign)

    draft = ManifestBuilder(Path())  # systems and scripts follow the rules of manifests
    ids: dict[type[SQLModel], set[int]] = {System: set(), Item: set(), Stimulus: set(), Rater: set()}
    for system in rows.of(System):
        draft.add_system(_WHERE, system.name, system.role, new=True)
        ids[System].add(system.id)
    for item in rows.of(Item):
        draft.add_item(_WHERE, item.name, item.text, item.role, item.expected, item.tags, new=True)
        ids[Item].add(item.id)
    lacking: set[str] = set()
    for stimulus in rows.of(Stimulus):
        _hold(Stimulus, stimulus, "item_id", stimulus.item_id in ids[Item])
        _hold(Stimulus, stimulus, "system_id", stimulus.system_id in ids[System])
        ids[Stimulus].add(stimulus.id)
        lacking.add(stimulus.clip_sha)
    for clip in rows.of(Clip):
        lacking.discard(clip.sha)
    if lacking:
        raise _bad(Stimulus, "clip_sha", min(lacking))
    for rater in rows.of(Rater):
        _hold(Rater, rater, "stage", rater.stage in steps)
        ids[Rater].add(rater.id)
    for trial in rows.of(Trial):
        _hold(Trial, trial, "rater_id", trial.rater_id in ids[Rater])
        _hold(Trial, trial, "lead", trial.lead in ids[Stimulus])
        _hold(Trial, trial, "item_id", trial.item_id in ids[Item])
        _hold(Trial, trial, "asked", trial.asked in orders)
    for slot in rows.of(Slot):
        _hold(Slot, slot, "stimulus_id", slot.stimulus_id in ids[Stimulus])
    for table in (Look, Removal, Prediction, Passage, Take, Answer, Score, Choice, Play):
        for _ in rows.of(table):
            pass


class _CampaignRows:
    """A campaign's rows, checked one by one, since a database may be larger than memory."""

    def __init__(self, theirs: Session, campaign: Campaign) -> None:
        self._theirs = theirs.connection()  # a session would build an object of each row
        trials, raters = (
            sa.select(columns.c.id).where(columns.c.campaign_id == campaign.id)
            for columns in map(_columns, (Trial, Rater))
        )
        answers = sa.select(_columns(Answer).c.id).where(_columns(Answer).c.trial_id.in_(trials))
        stimulus = _columns(Stimulus)
        clips = sa.select(stimulus.c.clip_sha).where(stimulus.c.campaign_id == campaign.id)
        self._owners: dict[str, Any] = {  # by the column that names the owner of a row
            "campaign_id": [campaign.id],
            "rater_id": raters,
            "trial_id": trials,
            "answer_id": answers,
            "clip_sha": clips,
            "sha": clips,
        }

    def of(self, table: type[SQLModel]) -> Iterator[Any]:
        """The rows of a table. Raises BadFile: one is invalid, or one owner has too many."""
        columns, (owner, most) = _columns(table), _OWNERS[table]
        column = columns.c[owner]
        is_ours = column.in_(self._owners[owner])
        counted = columns.c.rater_id if table is Trial else column
        many = sa.select(counted).where(is_ours).group_by(counted).having(sa.func.count() > most).limit(1)
        if self._theirs.execute(many).first() is not None:
            one = counted.name.removesuffix("_id")
            raise BadFile(
                f"the other database has more than {most:,} rows of {columns.name} for one {one}",
                "no studio wrote that: restore a backup of it, or take single campaigns with --name",
            )
        for row in self._theirs.execute(sa.select(columns).where(is_ours), execution_options={"yield_per": _BATCH}):
            _check(table, row)
            yield row


def _columns(table: type[SQLModel]) -> Any:
    return table.__table__  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


def _check(table: type[SQLModel], row: Any) -> None:
    model = _ROWS[table]
    try:
        model.model_validate({name: getattr(row, name) for name in model.model_fields}, strict=True)
    except ValidationError as error:
        column = str(error.errors()[0]["loc"][0])
        raise _bad(table, column, getattr(row, column)) from error


def _hold(table: type[SQLModel], row: Any, column: str, good: bool) -> None:
    if not good:
        raise _bad(table, column, getattr(row, column))


def _bad(table: type[SQLModel], column: str, value: object) -> BadFile:
    return BadFile(
        f"the other database has a {table.__name__.lower()} whose {column} is {value!r:.80}",
        "no studio wrote that: restore a backup of it, or take single campaigns with --name",
    )
