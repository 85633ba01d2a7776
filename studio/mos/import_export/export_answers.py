"""Export of answers in long form (one row per score or choice, raters by pseudonym) and of traces.

Panel ids and devices are never exported. Previews are excluded.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlmodel import Session, col, select

from studio.core.errors import BadFile
from studio.measure.tables import write_rows
from studio.mos.analysis.agreement import by_rater, consistency_tables, repeated_answers
from studio.mos.analysis.answers import typed_scripts
from studio.mos.analysis.quality import rater_verdicts
from studio.mos.campaign.config import to_json
from studio.mos.import_export.data_dictionary import DICTIONARY
from studio.mos.kinds.base import Kind
from studio.mos.kinds.registry import kind_of
from studio.mos.sessions.campaigns import load_campaign
from studio.mos.sessions.takes import REPLAYED, TYPED, latest_takes
from studio.mos.stats.agreement import consistency
from studio.mos.store.clips import ClipFolder
from studio.mos.store.tables.answers import Answer, Choice, Play, Score
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.raters import Passage, Rater, Removal
from studio.mos.store.tables.stimuli import Item, Stimulus, System
from studio.mos.store.tables.trials import Slot, Trial

_ABOUT = "a listening test"
_BATCH = 500  # answers per query


def export_rows(session: Session, campaign: Campaign) -> Iterator[dict[str, Any]]:
    """One row per score and choice in order of arrival, with the keys of ``DICTIONARY``."""
    judged = {j.pseudonym: j for j in rater_verdicts(session, campaign)}
    typed = typed_scripts(session, campaign.id or 0)
    steady = {rater: consistency(mine) for rater, mine in by_rater(repeated_answers(session, campaign.id or 0)).items()}
    answers = session.exec(
        select(Answer, Trial, Rater.pseudonym, Item)
        .join(Trial, col(Trial.id) == col(Answer.trial_id))
        .join(Rater, col(Rater.id) == col(Trial.rater_id))
        .join(Item, col(Item.id) == col(Trial.item_id))
        .where(Trial.campaign_id == campaign.id, Rater.role == "panel")
        .order_by(col(Answer.id))
    ).all()
    for start in range(0, len(answers), _BATCH):
        part = answers[start : start + _BATCH]
        answered = [a.id for a, *_ in part if a.id is not None]
        marks = _Marks(session, kind_of(campaign.kind), answered, [t.id for _, t, *_ in part])
        for answer, trial, rater, item in part:
            assert answer.id is not None, "rows from the database have ids"
            row = {column.name: None for column in DICTIONARY} | {
                "campaign": campaign.name,
                "rater": rater,
                "accept": judged[rater].accept,
                "use": judged[rater].use,
                "headphones": judged[rater].verdicts["headphones"],
                "environment": judged[rater].verdicts["environment"],
                "repeats_exact": again.exact if (again := steady.get(rater)) else None,
                "repeats_apart": again.apart if again else None,
                "consensus_r": alike.r if (alike := judged[rater].consensus) else None,
                "consensus_n": alike.n if alike else None,
                "trial": trial.id,
                "position": trial.position,
                "role": trial.role,
                "item": typed.get(trial.id, item.name),
                "tags": item.tags,
                "attempt": answer.attempt,
                "counted": bool(answer.counted),
                "response_ms": answer.response_ms,
                "received_at": datetime.fromtimestamp(answer.received_at, UTC).isoformat(timespec="milliseconds"),
                "comment": answer.comment,
            }
            if answer.missing:
                yield row | {"missing": answer.missing}
            places = {question: place for place, question in enumerate(trial.asked.split(), start=1)}
            for mark in marks.of(answer.id, trial.id):
                yield row | mark | {"asked": places.get(mark["question"])}


class _Marks:
    """Scores, choices and plays of a batch of answers."""

    def __init__(self, session: Session, kind: Kind, answers: Sequence[int], trials: Sequence[str]) -> None:
        self.kind = kind
        self.scores: defaultdict[int, list[Score]] = defaultdict(list)
        for score in session.exec(
            select(Score).where(col(Score.answer_id).in_(answers)).order_by(Score.question, col(Score.slot))
        ):
            self.scores[score.answer_id].append(score)
        self.choices: defaultdict[int, list[Choice]] = defaultdict(list)
        for choice in session.exec(select(Choice).where(col(Choice.answer_id).in_(answers))):
            self.choices[choice.answer_id].append(choice)
        self.plays: defaultdict[int, dict[int, Play]] = defaultdict(dict)
        for play in session.exec(select(Play).where(col(Play.answer_id).in_(answers))):
            self.plays[play.answer_id][play.slot] = play
        self.takes = latest_takes(session, trials) if kind.is_live else {}
        self.systems: defaultdict[str, dict[int, str]] = defaultdict(dict)
        self.references: dict[str, str] = {}
        for trial, slot, place, name in session.exec(
            select(Slot.trial_id, Slot.slot, Slot.place, System.name)
            .join(Stimulus, col(Stimulus.id) == col(Slot.stimulus_id))
            .join(System, col(System.id) == col(Stimulus.system_id))
            .where(col(Slot.trial_id).in_(trials))
        ):
            if place == "candidate":
                self.systems[trial][slot] = name
            else:
                self.references[trial] = name

    def of(self, answer: int, trial: str) -> Iterator[dict[str, Any]]:
        """The columns that differ between the rows of one answer."""
        systems, reference = self.systems[trial], {"reference": self.references.get(trial)}
        both = {"system_a": systems[0], "system_b": systems[1]} if self.kind.is_relative else {}
        for score in self.scores[answer]:
            yield {
                "question": score.question,
                "slot": score.slot,
                "system": systems[score.slot],
                "score": score.value,
                "low": score.low,
                "high": score.high,
                **reference,
                **both,
                **self._spoken(trial),
                **self._heard(answer, [0, 1] if both else [score.slot]),
            }
        for choice in self.choices[answer]:
            yield {
                "question": choice.question,
                "system_a": systems[0],
                "system_b": systems[1],
                "outcome": choice.outcome,
                **reference,
                **self._spoken(trial),
                **self._heard(answer, [0, 1]),
            }

    def _spoken(self, trial: str) -> dict[str, Any]:
        a, b = (self.takes.get((trial, slot)) for slot in (TYPED, REPLAYED))
        if a is None or b is None:
            return {}
        sounds = {"latency_a_ms": a.latency_ms, "latency_b_ms": b.latency_ms, "trace_a": a.trace, "trace_b": b.trace}
        return sounds | {"late_ms": b.late_ms}

    def _heard(self, answer: int, slots: Sequence[int]) -> dict[str, Any]:
        plays = [self.plays[answer][s] for s in slots if s in self.plays[answer]]
        if not plays:
            return {}
        return {"plays": sum(p.plays for p in plays), "heard_ms": sum(p.heard_ms for p in plays)}


def write_export(session: Session, campaign: Campaign, path: Path) -> int:
    """Write all rows into a .csv, .json or .parquet file; returns their number.

    Raises:
        BadOption: the file's suffix is not supported.
        BadFile: the file cannot be written.
        NeedsPackage: Parquet without pyarrow.
    """
    rows = list(export_rows(session, campaign))
    whole = export_metadata(session, campaign) if path.suffix == ".json" else {}
    return write_rows(path, DICTIONARY, rows, whole, _ABOUT)


def export_metadata(session: Session, campaign: Campaign) -> dict[str, Any]:
    """Metadata of a JSON export: the design, systems, scripts and comments.

    Completion codes are omitted, so that the file can be published.
    """
    config = {k: v for k, v in to_json(load_campaign(session, campaign).config).items() if k != "completion"}
    systems = session.exec(select(System).where(System.campaign_id == campaign.id).order_by(col(System.id)))
    items = session.exec(select(Item).where(Item.campaign_id == campaign.id).order_by(col(Item.id)))
    gone = session.exec(select(Removal).where(Removal.campaign_id == campaign.id)).all()
    return {
        "campaign": {"name": campaign.name, "kind": campaign.kind, "seed": campaign.seed, "config": config},
        "systems": [{"name": s.name, "role": s.role, "voice": json.loads(s.voice)} for s in systems],
        "items": [
            {"name": i.name, "role": i.role, "text": i.text, "expected": i.expected, "tags": i.tags} for i in items
        ],
        "forgotten": {"raters": len(gone), "answers": sum(r.answers for r in gone)},
        "consistency": consistency_tables(repeated_answers(session, campaign.id or 0), set()),
        "comments": _comments(session, campaign),
    }


def write_traces(session: Session, campaign: Campaign, clips: ClipFolder, out: Path) -> int:
    """Copy a campaign's traces into a folder; returns their number.

    Raises:
        BadFile: a file cannot be written, or a name in the database leads outside the folder.
    """
    wanted = {
        f"{system}/{item}": trace
        for system, item, trace in session.exec(
            select(System.name, Item.name, Stimulus.trace)
            .join(Stimulus, col(Stimulus.system_id) == col(System.id))
            .join(Item, col(Item.id) == col(Stimulus.item_id))
            .where(Stimulus.campaign_id == campaign.id)
        )
    }
    trials = (
        select(Trial.id)
        .join(Rater, col(Rater.id) == col(Trial.rater_id))
        .where(Trial.campaign_id == campaign.id, Rater.role == "panel")
    )
    wanted |= {f"{trial}-{'ab'[slot]}": take.trace for (trial, slot), take in latest_takes(session, trials).items()}
    there = {name: clips.trace_path(sha) for name, sha in wanted.items() if sha and clips.trace_path(sha).is_file()}
    try:
        for name, source in there.items():
            target = _inside(out, f"{name}.trace")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    except OSError as error:
        raise BadFile(f"{out} cannot be written: {error}", "choose another folder") from error
    return len(there)


def _inside(folder: Path, name: str) -> Path:
    """The path of a file in the folder. Raises BadFile if .. or a link leads outside."""
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise BadFile(f"{name[:80]!r} leads out of the folder {folder}", "the database was changed by hand")
    return path


def _comments(session: Session, campaign: Campaign) -> list[dict[str, str]]:
    found = session.exec(
        select(Rater.pseudonym, Passage.data)
        .join(Passage, col(Passage.rater_id) == col(Rater.id))
        .where(Rater.campaign_id == campaign.id, Rater.role == "panel", Passage.stage == "comments")
        .order_by(col(Passage.id))
    )
    said = [(rater, str(json.loads(data).get("comment", ""))) for rater, data in found]
    return [{"rater": rater, "comment": comment} for rater, comment in said if comment]
