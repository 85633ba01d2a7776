"""The file for a panel's bulk approval: accept, reject, or review by a person.

Panels let a rater be rejected for failed attention checks: for two, or for one in studies of up to five minutes
(Prolific's attention check policy). ``gates.reject_after`` is that number; below it the file says ``review``.
"""

import json
from collections.abc import Sequence

from sqlmodel import Session, col, select

from studio.measure.tables import csv_text
from studio.mos.analysis.quality import RaterVerdicts, rater_verdicts
from studio.mos.sessions.panels import PANELS, PanelNames, panel_of
from studio.mos.store.tables import Campaign, Rater


def panel_csv(session: Session, campaign: Campaign) -> str:
    """CSV for a panel's bulk approval by its ids; raters who have not finished and are not rejected are omitted."""
    verdicts = {j.pseudonym: j for j in rater_verdicts(session, campaign)}
    query = select(Rater).where(Rater.campaign_id == campaign.id, Rater.role == "panel").order_by(col(Rater.id))
    raters = [(rater, json.loads(rater.panel)) for rater in session.exec(query)]
    known = [(rater, ids, panel) for rater, ids in raters if (panel := panel_of(ids))]
    columns = _columns([panel for *_, panel in known])
    rows = [[*columns, "decision", "reason"]]
    for rater, ids, _ in known:
        if (decision := _decision(verdicts[rater.pseudonym])) is not None:
            rows.append([*(str(ids.get(name, "")) for name in columns), *decision])
    return csv_text(rows)


def _columns(panels: Sequence[PanelNames]) -> list[str]:
    """The parameters of these panels; Prolific's if there are none."""
    return list(dict.fromkeys(name for panel in panels or [PANELS["Prolific"]] for name in panel.names))


def _decision(own: RaterVerdicts) -> tuple[str, str] | None:
    """Decision and reason; None if there is none yet."""
    wrong = f"{own.failed_traps} of {own.traps} attention checks answered wrongly"
    if own.accept == "fail":
        return "reject", wrong
    if own.failed_traps and own.finished:
        return "review", f"{wrong}; {own.reject_after} are needed to reject"
    return None if own.accept == "unknown" else ("accept", "")
