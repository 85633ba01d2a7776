"""Export of answers in long form (one row per score or choice), and of traces.

Raters are named by pseudonym; panel ids are never exported, previews are excluded. The export of answers may be
published.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlmodel import Session, col, select

from studio.core.errors import BadFile
from studio.core.folders import real_path
from studio.measure.tables import Column, write_rows
from studio.mos.analysis.answers import by_rater, consistency_tables, load_answers, repeated_answers, typed_scripts
from studio.mos.analysis.quality import rater_verdicts
from studio.mos.campaign.config import campaign_config, to_json
from studio.mos.kinds.registry import Kind, kind_of
from studio.mos.kinds.tables import post_screened
from studio.mos.sessions.campaigns import load_campaign
from studio.mos.sessions.takes import REPLAYED, TYPED, latest_takes
from studio.mos.stats.agreement import consistency
from studio.mos.store.clips import ClipFolder
from studio.mos.store.tables import (
    Answer,
    Campaign,
    Choice,
    Item,
    Passage,
    Play,
    Rater,
    Removal,
    Score,
    Slot,
    Stimulus,
    System,
    Trial,
    row_id,
)

_ABOUT = "a listening test"
_BATCH = 500  # answers per query


def export_rows(session: Session, campaign: Campaign) -> Iterator[dict[str, Any]]:
    """One row per score and choice in order of arrival, with the keys of ``DICTIONARY``."""
    verdicts = {j.pseudonym: j for j in rater_verdicts(session, campaign)}
    typed, config = typed_scripts(session, row_id(campaign)), campaign_config(campaign)
    answered = load_answers(session, row_id(campaign), everyone=True)
    dropped = post_screened(config, [a for a in answered if verdicts[a.rater].use != "fail"])
    whole = {
        "kind": campaign.kind,
        "seed": campaign.seed,
        "baseline": config.baseline,
        "mid_anchor": next((a.mid_anchor for a in answered), None),
    }
    repeats = by_rater(repeated_answers(session, row_id(campaign)))
    consistencies = {rater: consistency(mine) for rater, mine in repeats.items()}
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
            row = {column.name: None for column in DICTIONARY} | {
                "campaign": campaign.name,
                "rater": rater,
                "accept": verdicts[rater].accept,
                "use": verdicts[rater].use,
                "headphones": verdicts[rater].verdicts["headphones"],
                "environment": verdicts[rater].verdicts["environment"],
                "repeats_exact": again.exact if (again := consistencies.get(rater)) else None,
                "repeats_apart": again.apart if again else None,
                "consensus_r": consensus.r if (consensus := verdicts[rater].consensus) else None,
                "consensus_n": consensus.n if consensus else None,
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
                "post_screen": dropped.get(rater),
                **whole,
            }
            if answer.missing:
                yield row | {"missing": answer.missing}
            positions = {question: position for position, question in enumerate(trial.asked.split(), start=1)}
            for mark in marks.of(row_id(answer), trial.id):
                yield row | mark | {"asked": positions.get(mark["question"])}


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
        for trial, slot, role, name in session.exec(
            select(Slot.trial_id, Slot.slot, Slot.place, System.name)
            .join(Stimulus, col(Stimulus.id) == col(Slot.stimulus_id))
            .join(System, col(System.id) == col(Stimulus.system_id))
            .where(col(Slot.trial_id).in_(trials))
        ):
            if role == "candidate":
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
                **self._play_totals(answer, [0, 1] if both else [score.slot]),
            }
        for choice in self.choices[answer]:
            yield {
                "question": choice.question,
                "system_a": systems[0],
                "system_b": systems[1],
                "outcome": choice.outcome,
                **reference,
                **self._spoken(trial),
                **self._play_totals(answer, [0, 1]),
            }

    def _spoken(self, trial: str) -> dict[str, Any]:
        a, b = (self.takes.get((trial, slot)) for slot in (TYPED, REPLAYED))
        if a is None or b is None:
            return {}
        sounds = {"latency_a_ms": a.latency_ms, "latency_b_ms": b.latency_ms, "trace_a": a.trace, "trace_b": b.trace}
        return sounds | {"late_ms": b.late_ms}

    def _play_totals(self, answer: int, slots: Sequence[int]) -> dict[str, Any]:
        plays = [self.plays[answer][s] for s in slots if s in self.plays[answer]]
        if not plays:
            return {}
        return {"plays": sum(p.plays for p in plays), "heard_ms": sum(p.heard_ms for p in plays)}


def write_export(session: Session, campaign: Campaign, path: Path) -> int:
    """Write all rows into a .csv, .json or .parquet file; returns their number.

    Raises BadOption: the file's suffix is not supported; BadFile: the file cannot be written; NeedsPackage: Parquet
    without pyarrow.
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
        "consistency": consistency_tables(repeated_answers(session, row_id(campaign)), set()),
        "comments": _comments(session, campaign),
    }


def write_traces(session: Session, campaign: Campaign, clips: ClipFolder, out: Path) -> int:
    """Copy a campaign's traces into a folder; returns their number.

    Raises BadFile: a file cannot be written, or a name in the database leads outside the folder.
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
    path = real_path(folder / name)
    if not path.is_relative_to(real_path(folder)):
        raise BadFile(f"{name[:80]!r} leads out of the folder {folder}", "the database was changed by hand")
    return path


def _comments(session: Session, campaign: Campaign) -> list[dict[str, str]]:
    rows = session.exec(
        select(Rater.pseudonym, Passage.data)
        .join(Passage, col(Passage.rater_id) == col(Rater.id))
        .where(Rater.campaign_id == campaign.id, Rater.role == "panel", Passage.stage == "comments")
        .order_by(col(Passage.id))
    )
    comments = [(rater, str(json.loads(data).get("comment", ""))) for rater, data in rows]
    return [{"rater": rater, "comment": comment} for rater, comment in comments if comment]


DICTIONARY: tuple[Column, ...] = (
    Column("campaign", "text", "name of the campaign"),
    Column("rater", "text", "pseudonym of the rater, drawn at random; the same only in campaigns of one session"),
    Column("accept", "text", "whether to pay the rater: ok, fail or unknown (unfinished)"),
    Column("use", "text", "whether to analyse the rater: ok, fail or unknown (no gate applied; analysed)"),
    Column(
        "headphones",
        "text",
        "headphone check: ok, fail or unknown (none, or not played); decides only where the campaign requires it",
    ),
    Column(
        "environment",
        "text",
        "environment test of P.808: ok, fail or unknown (none, not played); decides only where it is required",
    ),
    Column("repeats_exact", "number", "share of the rater's answers to repeated trials that were the same both times"),
    Column("repeats_apart", "number", "mean distance of those answers, as a share of the scale; another choice is 1"),
    Column(
        "consensus_r", "number", "correlation of the rater's answers with the mean of the others'; empty without one"
    ),
    Column("consensus_n", "integer", "number of the rater's answers that other raters answered too"),
    Column("trial", "text", "id of the trial"),
    Column("position", "integer", "position of the trial in the rater's session, from 0"),
    Column("role", "text", "test, training, trap, gold or repeat; only test enters the tables"),
    Column("item", "text", "name of the script; in an arena a hash of the typed words, the same for all raters"),
    Column("tags", "text", "tags of the script, separated by semicolons"),
    Column("question", "text", "id of the question; 'preference' for a choice between two sounds, 'match' in abx"),
    Column("asked", "integer", "p835: whether the question was asked first (1), second or third; empty in other tests"),
    Column(
        "slot", "integer", "position of the sound in the trial, from 0; in a comparison (ccr) 1; empty for a choice"
    ),
    Column("system", "text", "system that spoke the sound; in a comparison (ccr) the second; empty for a choice"),
    Column("score", "integer", "the score; in a comparison (ccr) the second against the first; empty for a choice"),
    Column("low", "integer", "lowest score of the scale; empty for a choice"),
    Column("high", "integer", "highest score of the scale; empty for a choice"),
    Column("system_a", "text", "system that was shown first (a); empty for the score of one sound"),
    Column("system_b", "text", "system that was shown second (b); empty for the score of one sound"),
    Column("reference", "text", "system played as the reference, or as X (abx); empty without one"),
    Column("outcome", "text", "a, b, tie or both_bad; empty for a score"),
    Column("attempt", "integer", "1 for the first answer to the trial, 2 for another one sent later, and so on"),
    Column("counted", "boolean", "whether this attempt counts; the first one does"),
    Column("response_ms", "number", "time from the trial's display to the answer, in milliseconds"),
    Column("plays", "integer", "how often the sound was played; for a choice or a comparison, both sounds together"),
    Column(
        "heard_ms",
        "number",
        "how long the sound was played, in milliseconds; both together for a choice or a comparison",
    ),
    Column("latency_a_ms", "number", "live: first audible sound of a after the words it needed, in milliseconds"),
    Column("latency_b_ms", "number", "live: the same of b, which got a's keystrokes replayed"),
    Column("late_ms", "number", "live: delay of b by late keystrokes, in milliseconds"),
    Column("missing", "text", "live: why the rater skipped the trial: late, failed or mute; empty if it was answered"),
    Column("trace_a", "text", "live: address of a's trace in the clip folder"),
    Column("trace_b", "text", "live: address of b's trace"),
    Column("received_at", "text", "when the answer was stored, UTC, ISO 8601"),
    Column("comment", "text", "what the rater wrote beside the answer, as typed"),
    Column(
        "post_screen",
        "text",
        "mushra: why the post-screening excludes the rater: reference, anchor or both; empty if it does not",
    ),
    Column("kind", "text", "kind of test"),
    Column("seed", "integer", "seed of the campaign: of the assignment, and of the posterior's draws"),
    Column("baseline", "text", "the system with which others are compared; empty without one"),
    Column("mid_anchor", "text", "mushra: the mid anchor of the post-screening; empty without one"),
)
