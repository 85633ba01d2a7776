"""Raters one a row: what they answered before the test and wrote after it, on what device, and what the gates say.

They are known by pseudonym; a panel's id is in the database alone. What a device tells of itself and what somebody
wrote may tell who they are all the same: this is for the lab; answers (studio.mos.exchange.export) may be given away.
"""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlmodel import Session, col, select

from studio.measure.tables.columns import Column
from studio.measure.tables.write import write_rows
from studio.mos.analysis.quality import GATES, judge
from studio.mos.rating.campaigns import running
from studio.mos.rating.steps import stages
from studio.mos.store.tables.answers import Answer
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.raters import Passage, Rater
from studio.mos.store.tables.trials import Trial

_ABOUT = (
    Column("campaign", "text", "name of the campaign"),
    Column("rater", "text", "pseudonym of the rater, as in the export of answers"),
    Column("stage", "text", "where the rater is, or how their sitting ended"),
    Column("part", "integer", "of a sitting through several campaigns, where a rater has one name: 1 is the first"),
    Column("consent_version", "integer", "version of the consent that was agreed to"),
    Column("joined_at", "text", "when the rater agreed, UTC, ISO 8601"),
    Column("finished_at", "text", "when every screen was answered, UTC, ISO 8601; empty where they are not"),
    Column("answers", "integer", "screens that were answered"),
    Column("skipped", "integer", "live screens that had to be skipped"),
    Column("accept", "text", "whether to pay the rater: ok, fail or unknown (still at it)"),
    Column("use", "text", "whether to analyse the rater: ok, fail or unknown (no gate could judge; analysed)"),
)
_COMMENT = Column("comment", "text", "what the rater wrote at the end, as typed")


def rater_columns(session: Session, campaign: Campaign) -> list[Column]:
    """What there is to say of each rater of a campaign: its own screening questions, and what its devices told."""
    told: dict[str, None] = {}
    for rater in _raters(session, campaign):
        told |= dict.fromkeys(json.loads(rater.device))
    screening = running(session, campaign).config.gates.screening
    return [
        *_ABOUT,
        *(Column(f"gate_{gate}", "text", f"verdict of the gate {gate}: ok, fail or unknown") for gate in GATES),
        Column("consensus_r", "number", "correlation of the answers with the mean of the others'; empty without one"),
        Column("consensus_n", "integer", "how many of the answers had others' beside them"),
        Column("headphone_tries", "integer", "how often the headphone check was done"),
        Column(
            "environment_right",
            "integer",
            "pairs of the environment test that were answered right at the last try, of 4",
        ),
        Column("environment_tries", "integer", "how often the environment test was done"),
        *(Column(f"screening_{s.id}", "text", f"answer to: {s.prompt}") for s in screening),
        *(Column(f"device_{name}", "text", f"what the browser told of {name}") for name in sorted(told)),
        _COMMENT,
    ]


def rater_rows(session: Session, campaign: Campaign) -> Iterable[dict[str, Any]]:
    """One row for each rater who is no preview, in order of coming; the keys are those of ``rater_columns``."""
    columns = rater_columns(session, campaign)
    judged = {j.pseudonym: j for j in judge(session, campaign)}
    order = stages(running(session, campaign).config)
    for rater in _raters(session, campaign):
        passed = session.exec(select(Passage).where(Passage.rater_id == rater.id).order_by(col(Passage.id))).all()
        missing = session.exec(
            select(Answer.missing)
            .join(Trial, col(Trial.id) == col(Answer.trial_id))
            .where(Trial.rater_id == rater.id, Answer.counted == 1)
        ).all()
        one = judged[rater.pseudonym]
        said: dict[str, Any] = {p.stage: json.loads(p.data) for p in passed if p.stage in order}
        row = {column.name: None for column in columns} | {
            "campaign": campaign.name,
            "rater": rater.pseudonym,
            "part": rater.part,
            "stage": rater.stage,
            "consent_version": rater.consent_version,
            "joined_at": _when(rater.joined_at),
            "finished_at": None if rater.finished_at is None else _when(rater.finished_at),
            "answers": sum(not why for why in missing),
            "skipped": sum(bool(why) for why in missing),
            "accept": one.accept,
            "use": one.use,
            "consensus_r": one.consensus.r if one.consensus else None,
            "consensus_n": one.consensus.n if one.consensus else None,
            "headphone_tries": sum(p.stage == "headphones" for p in passed),
            "environment_right": said.get("environment", {}).get("right"),
            "environment_tries": sum(p.stage == "environment" for p in passed),
            "comment": said.get("comments", {}).get("comment", ""),
        }
        row |= {f"gate_{gate}": verdict for gate, verdict in one.verdicts.items()}
        row |= {f"screening_{k}": v for k, v in said.get("screening", {}).items() if f"screening_{k}" in row}
        yield row | {f"device_{k}": None if v is None else str(v) for k, v in json.loads(rater.device).items()}


def write_raters(session: Session, campaign: Campaign, path: Path) -> int:
    """Write every rater into a .csv, .json or .parquet file; answers how many. Raises as ``export.write_export``."""
    columns, rows = rater_columns(session, campaign), list(rater_rows(session, campaign))
    whole = {"campaign": {"name": campaign.name, "kind": campaign.kind}}
    return write_rows(path, columns, rows, whole, "the raters of a listening test")


def _raters(session: Session, campaign: Campaign) -> list[Rater]:
    wanted = select(Rater).where(Rater.campaign_id == campaign.id, Rater.role == "panel")
    return list(session.exec(wanted.order_by(col(Rater.id))))


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
