"""Results that are computed anew only when something has changed: what a page that looks every few seconds asks."""

import threading
from collections import OrderedDict
from typing import Any

from sqlmodel import Session, col, func, select

from studio.mos.analysis.results import results
from studio.mos.rating.campaigns import find
from studio.mos.store.database import Store
from studio.mos.store.tables.answers import Answer
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.looks import Look
from studio.mos.store.tables.predictions import Prediction
from studio.mos.store.tables.raters import Passage, Rater, Removal
from studio.mos.store.tables.stimuli import Item, Stimulus
from studio.mos.store.tables.trials import Trial

_KEPT = 16

Stamp = tuple[str, int, int, int, int]


class Snapshots:
    """The newest results of each campaign that somebody looks at; safe to ask from several threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[tuple[str, bool], tuple[Stamp, dict[str, Any]]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, campaign: str, everyone: bool = False) -> tuple[Stamp, dict[str, Any]]:
        """A stamp that changes with the results, and the results. Raises BadOption, BadFile."""
        with self._store.read() as session:
            row = find(session, campaign)
            now = stamp(session, row)
            with self._lock:
                known = self._kept.get((campaign, everyone))
            if known is None or known[0] != now:
                known = (now, results(session, row, everyone=everyone))
        with self._lock:
            self._kept[campaign, everyone] = known
            self._kept.move_to_end((campaign, everyone))
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return known


def stamp(session: Session, campaign: Campaign) -> Stamp:
    """What changes whenever a campaign's results do: newest answer, newest passage, raters, raters forgotten.

    The first part tells its state, its looks, what was predicted of its clips, and the tags of its scripts.
    """
    answer = select(func.max(Answer.id)).join(Trial, col(Trial.id) == col(Answer.trial_id))
    passage = select(func.max(Passage.id)).join(Rater, col(Rater.id) == col(Passage.rater_id))
    raters = select(func.count()).select_from(Rater).where(Rater.campaign_id == campaign.id)
    looks = select(func.count()).select_from(Look).where(Look.campaign_id == campaign.id)
    clips = select(Stimulus.clip_sha).where(Stimulus.campaign_id == campaign.id)
    foreseen = select(func.count()).select_from(Prediction).where(col(Prediction.clip_sha).in_(clips))
    gone = select(func.count()).select_from(Removal).where(Removal.campaign_id == campaign.id)
    tags = select(Item.tags, func.count(), func.sum(Item.id)).where(Item.campaign_id == campaign.id, Item.tags != "")
    tagged = sorted(tuple(row) for row in session.exec(tags.group_by(col(Item.tags))))
    return (
        f"{campaign.id} {campaign.state} {session.exec(looks).one()} {session.exec(foreseen).one()} {tagged}",
        session.exec(answer.where(Trial.campaign_id == campaign.id)).one() or 0,
        session.exec(passage.where(Rater.campaign_id == campaign.id)).one() or 0,
        session.exec(raters).one(),
        session.exec(gone).one(),
    )
