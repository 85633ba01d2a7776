"""Validation of every row of another database before a merge.

SQLite does not enforce column types, and the file may have been edited by hand.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import Session, SQLModel, col, select

from studio.core.checks import is_number
from studio.core.errors import BadFile, BadOption
from studio.mos.campaign.config import from_json
from studio.mos.campaign.manifest import ManifestBuilder
from studio.mos.campaign.names import check_name
from studio.mos.kinds.registry import kind_of
from studio.mos.sessions.stage_order import END_STAGES, ordered_stages
from studio.mos.sessions.takes import MAX_CHARS, MAX_STROKES, Typing
from studio.mos.store.json_columns import is_object, read_json
from studio.mos.store.tables.answers import Answer, Choice, Play, Score
from studio.mos.store.tables.campaigns import Campaign, Look
from studio.mos.store.tables.raters import Passage, Rater, Removal
from studio.mos.store.tables.stimuli import Clip, Item, Prediction, Stimulus, System
from studio.mos.store.tables.trials import Slot, Take, Trial

Check = Callable[[Any], bool]
_LATEST_S = 253_402_300_799.0  # the last second of the year 9999
_BATCH = 500


def _whole(low: int, high: int = 2**63 - 1) -> Check:
    return lambda value: type(value) is int and low <= value <= high


def _number(low: float, high: float) -> Check:
    return lambda value: is_number(value) and low <= value <= high


def _text(longest: int) -> Check:
    return lambda value: isinstance(value, str) and len(value) <= longest and "\0" not in value


def _like(pattern: str) -> Check:
    known = re.compile(pattern, re.ASCII)
    return lambda value: isinstance(value, str) and known.fullmatch(value) is not None


def _one_of(*allowed: str) -> Check:
    return lambda value: value in allowed


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _is_typing(value: Any) -> bool:
    try:
        typing = Typing.from_json(value) if isinstance(value, str) and read_json(value) else None
    except (ValueError, TypeError, KeyError):
        return False
    if typing is None or not _TIME_MS(typing.end_ms) or len(typing.strokes) > MAX_STROKES:
        return False
    place, piece = _whole(0, MAX_CHARS), _text(MAX_CHARS)
    return all(
        _TIME_MS(s.at_ms) and place(s.at) and place(s.remove) and piece(s.insert) and len(s.insert) <= MAX_CHARS
        for s in typing.strokes
    )


_SHA, _SCREEN, _TIME_S = _like("[0-9a-f]{64}"), _like("[0-9a-f]{8,64}"), _number(0.0, _LATEST_S)
_TIME_MS = _number(0.0, 1e12)
_VERDICT, _SLOT = _one_of("ok", "fail", "unknown"), _whole(0, 63)
_LEVEL = _number(-1000.0, 1000.0)
_PSEUDONYM = _like("[A-Za-z0-9_-]{1,40}")
_COLUMNS: Mapping[type[SQLModel], Mapping[str, Check]] = {
    Look: {"raters": _whole(0), "met": _whole(0, 1), "why": _text(4000), "at": _TIME_S},
    Clip: {"rate_hz": _whole(1, 768_000), "samples": _whole(0), "derived_from": _or_none(_SHA)},
    Stimulus: {
        "clip_sha": _SHA,
        "source_rate_hz": _whole(1, 768_000),
        **dict.fromkeys(("gain_db", "lufs_before", "lufs_after", "peak_dbfs"), _LEVEL),
        "trace": _or_none(_SHA),
    },
    Prediction: {
        "clip_sha": _SHA,
        "weights": _SHA,
        "predictor": _like(r"\w[\w .+-]{0,79}"),
        "version": _like(r"[\w .+!-]{1,80}"),
        "mos": _number(1.0, 5.0),
        "at": _TIME_S,
    },
    Rater: {
        "identity": _text(2000),
        "pseudonym": _PSEUDONYM,
        "role": _one_of("panel", "preview"),
        "part": _whole(1, 1000),
        "consent_version": _or_none(_whole(-(2**31), 2**31)),
        "panel": is_object,
        "device": is_object,
        "joined_at": _TIME_S,
        "seen_at": _TIME_S,
        "finished_at": _or_none(_TIME_S),
        "accept": _VERDICT,
        "use": _VERDICT,
    },
    Passage: {"stage": _text(40), "verdict": _VERDICT, "at": _TIME_S, "data": is_object},
    Removal: {"pseudonym": _PSEUDONYM, "answers": _whole(0), "at": _TIME_S, "person": _like("(?:[0-9a-f]{64})?")},
    Trial: {
        "id": _SCREEN,
        "position": _whole(0, 1_000_000),
        "role": _one_of("test", "training", "trap", "gold", "repeat"),
        "unit": _text(4000),
        "issued_at": _or_none(_TIME_S),
        "released": _whole(0, 1),
    },
    Slot: {"slot": _SLOT, "place": _one_of("candidate", "reference")},
    Take: {
        "slot": _SLOT,
        "number": _whole(0),
        "at": _TIME_S,
        "typed": _is_typing,
        "trace": _SHA,
        "rate_hz": _whole(1, 768_000),
        "samples": _whole(0),
        "latency_ms": _or_none(_number(-1e12, 1e12)),
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
        "missing": _one_of("", "late", "failed", "mute"),
    },
    Score: {
        "question": _text(80),
        "slot": _SLOT,
        **dict.fromkeys(("value", "low", "high"), _whole(-100, 100)),
    },
    Choice: {"question": _text(80), "outcome": _one_of("a", "b", "tie", "both_bad")},
    Play: {"slot": _SLOT, "plays": _whole(0, 10_000), "heard_ms": _TIME_MS},
}


def check_campaigns(theirs: Session, campaigns: Sequence[Campaign]) -> None:
    """Raises BadFile for a row of these campaigns that the studio could not have written."""
    for campaign in campaigns:
        try:
            _check_campaign(theirs, campaign)
        except BadOption as error:
            raise BadFile(f"in the other database: {error.what}", error.do) from error
        except SQLAlchemyError as error:
            raise BadFile("the other database cannot be read whole", "restore a backup of it") from error


def _check_campaign(theirs: Session, campaign: Campaign) -> None:
    check_name(campaign.name if isinstance(cast("Any", campaign.name), str) else "")
    try:
        config = from_json(read_json(campaign.config))
    except (ValueError, TypeError) as error:
        raise _bad(campaign, "config", campaign.config) from error
    kind_of(config.kind).check(config)
    _hold(campaign, "kind", campaign.kind == config.kind)
    _hold(campaign, "state", campaign.state in ("draft", "open", "closed"))
    _hold(campaign, "seed", _whole(0)(campaign.seed))
    _hold(campaign, "created_at", _TIME_S(campaign.created_at))
    steps = _one_of(*ordered_stages(config), *END_STAGES)
    orders = ("", *kind_of(config.kind).question_orders(config))

    def rows(table: Any) -> list[Any]:
        return list(theirs.exec(select(table).where(table.campaign_id == campaign.id)))

    systems, items, stimuli = rows(System), rows(Item), rows(Stimulus)
    _check_named(systems, items)
    raters, trials = rows(Rater), rows(Trial)
    for row in (*stimuli, *rows(Look), *rows(Removal), *raters, *trials):
        _check(row)
    for rater in raters:
        _hold(rater, "stage", steps(rater.stage))
    ids = {table: {row.id for row in among} for table, among in _by_table(systems, items, stimuli, raters)}
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


def _check_named(systems: list[System], items: list[Item]) -> None:
    """Check systems and scripts by the rules of manifests."""
    draft = ManifestBuilder(Path())
    for system in systems:
        _hold(system, "name", isinstance(cast("Any", system.name), str))
        _hold(system, "voice", is_object(system.voice))
        _hold(system, "role", isinstance(cast("Any", system.role), str))
        draft.add_system("the other database", system.name, system.role, new=True)
    for item in items:
        for column in ("name", "text", "role", "tags"):
            _hold(item, column, isinstance(getattr(item, column), str))
        _hold(item, "expected", item.expected is None or isinstance(cast("Any", item.expected), str))
        draft.add_item("the other database", item.name, item.text, item.role, item.expected, item.tags, new=True)


def _check_all(theirs: Session, table: Any, column: Any, keys: list[Any]) -> list[Any]:
    """Select and check all rows whose column is one of the keys."""
    found: list[Any] = []
    for start in range(0, len(keys), _BATCH):
        found += theirs.exec(select(table).where(column.in_(keys[start : start + _BATCH])))
    for row in found:
        _check(row)
    return found


def _by_table(*lists: list[Any]) -> Iterable[tuple[Any, list[Any]]]:
    return zip((System, Item, Stimulus, Rater), lists, strict=True)


def _check(row: SQLModel) -> None:
    for column, check in _COLUMNS[type(row)].items():
        _hold(row, column, check(getattr(row, column)))


def _hold(row: SQLModel, column: str, good: bool) -> None:
    if not good:
        raise _bad(row, column, getattr(row, column))


def _bad(row: SQLModel, column: str, value: object) -> BadFile:
    return BadFile(
        f"the other database has a {type(row).__name__.lower()} whose {column} is {value!r:.80}",
        "no studio wrote that: restore a backup of it, or take single campaigns with --name",
    )
