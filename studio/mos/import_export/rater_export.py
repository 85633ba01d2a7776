"""Export of raters, one per row, for internal use: device data and comments may still identify a person."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlmodel import Session, col, select

from studio.measure.tables import Column, write_rows
from studio.mos.analysis.quality import GATES, rater_verdicts
from studio.mos.sessions.campaigns import load_campaign
from studio.mos.sessions.parts import ordered_stages
from studio.mos.store.tables import Answer, Campaign, Passage, Rater, Trial

_RATER_COLUMNS = (
    Column("campaign", "text", "name of the campaign"),
    Column("rater", "text", "pseudonym of the rater, as in the export of answers"),
    Column("stage", "text", "current stage of the rater, or how the session ended"),
    Column("part", "integer", "part of a session through several campaigns, which share the pseudonym: 1 is the first"),
    Column("consent_version", "integer", "version of the consent that was agreed to"),
    Column("joined_at", "text", "when the rater agreed, UTC, ISO 8601"),
    Column("finished_at", "text", "when all trials were answered, UTC, ISO 8601; else empty"),
    Column("answers", "integer", "answered trials"),
    Column("skipped", "integer", "live trials that were skipped"),
    Column("accept", "text", "whether to pay the rater: ok, fail or unknown (unfinished)"),
    Column("use", "text", "whether to analyse the rater: ok, fail or unknown (no gate applied; analysed)"),
)
_RATER_COMMENT = Column("comment", "text", "what the rater wrote at the end, as typed")


def rater_columns(session: Session, campaign: Campaign) -> list[Column]:
    """The columns of a campaign's raters, including its screening questions and reported device properties."""
    properties: dict[str, None] = {}
    for rater in _raters(session, campaign):
        properties |= dict.fromkeys(json.loads(rater.device))
    screening = load_campaign(session, campaign).config.gates.screening
    return [
        *_RATER_COLUMNS,
        *(Column(f"gate_{gate}", "text", f"verdict of the gate {gate}: ok, fail or unknown") for gate in GATES),
        Column("consensus_r", "number", "correlation of the answers with the mean of the others'; empty without one"),
        Column("consensus_n", "integer", "number of the answers that other raters answered too"),
        Column("headphone_tries", "integer", "how often the headphone check was done"),
        Column(
            "environment_right",
            "integer",
            "pairs of the environment test that were answered right at the last try, of 4",
        ),
        Column("environment_tries", "integer", "how often the environment test was done"),
        *(Column(f"screening_{s.id}", "text", f"answer to: {s.prompt}") for s in screening),
        *(Column(f"device_{name}", "text", f"{name} as reported by the browser") for name in sorted(properties)),
        _RATER_COMMENT,
    ]


def rater_rows(session: Session, campaign: Campaign) -> Iterable[dict[str, Any]]:
    """One row per rater without previews, in order of arrival, with the keys of ``rater_columns``."""
    columns = rater_columns(session, campaign)
    verdicts = {j.pseudonym: j for j in rater_verdicts(session, campaign)}
    order = ordered_stages(load_campaign(session, campaign).config)
    for rater in _raters(session, campaign):
        passed = session.exec(select(Passage).where(Passage.rater_id == rater.id).order_by(col(Passage.id))).all()
        missing = session.exec(
            select(Answer.missing)
            .join(Trial, col(Trial.id) == col(Answer.trial_id))
            .where(Trial.rater_id == rater.id, Answer.counted == 1)
        ).all()
        one = verdicts[rater.pseudonym]
        passage_data: dict[str, Any] = {p.stage: json.loads(p.data) for p in passed if p.stage in order}
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
            "environment_right": passage_data.get("environment", {}).get("right"),
            "environment_tries": sum(p.stage == "environment" for p in passed),
            "comment": passage_data.get("comments", {}).get("comment", ""),
        }
        row |= {f"gate_{gate}": verdict for gate, verdict in one.verdicts.items()}
        row |= {
            f"screening_{k}": str(v) for k, v in passage_data.get("screening", {}).items() if f"screening_{k}" in row
        }
        yield row | {f"device_{k}": None if v is None else str(v) for k, v in json.loads(rater.device).items()}


def write_raters(session: Session, campaign: Campaign, path: Path) -> int:
    """Write all raters into a .csv, .json or .parquet file; returns their number. Raises as ``write_export``."""
    columns, rows = rater_columns(session, campaign), list(rater_rows(session, campaign))
    whole = {"campaign": {"name": campaign.name, "kind": campaign.kind}}
    return write_rows(path, columns, rows, whole, "the raters of a listening test")


def _raters(session: Session, campaign: Campaign) -> list[Rater]:
    wanted = select(Rater).where(Rater.campaign_id == campaign.id, Rater.role == "panel")
    return list(session.exec(wanted.order_by(col(Rater.id))))


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
