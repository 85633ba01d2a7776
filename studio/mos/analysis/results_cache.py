"""Cache of results, recomputed only after changes, for pages that poll."""

import threading
from collections import OrderedDict
from typing import Any

from sqlmodel import Session, col, func, select

from studio.mos.analysis.results import results
from studio.mos.sessions.campaigns import find_campaign
from studio.mos.store.database import Store
from studio.mos.store.tables.answers import Answer
from studio.mos.store.tables.campaigns import Campaign, Look
from studio.mos.store.tables.raters import Passage, Rater, Removal
from studio.mos.store.tables.stimuli import Item, Prediction, Stimulus
from studio.mos.store.tables.trials import Trial

_MAX_ENTRIES = 16

ResultsVersion = tuple[str, int, int, int, int]


class ResultsCache:
    """The latest results of the most recently requested campaigns; thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._entries: OrderedDict[tuple[str, bool], tuple[ResultsVersion, dict[str, Any]]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, campaign: str, everyone: bool = False) -> tuple[ResultsVersion, dict[str, Any]]:
        """A version that changes with the results, and the results. Raises BadOption, BadFile."""
        with self._store.read() as session:
            row = find_campaign(session, campaign)
            version = results_version(session, row)
            with self._lock:
                entry = self._entries.get((campaign, everyone))
            if entry is None or entry[0] != version:
                entry = (version, results(session, row, everyone=everyone))
        with self._lock:
            self._entries[campaign, everyone] = entry
            self._entries.move_to_end((campaign, everyone))
            while len(self._entries) > _MAX_ENTRIES:
                self._entries.popitem(last=False)
        return entry


def results_version(session: Session, campaign: Campaign) -> ResultsVersion:
    """Values that change whenever a campaign's results do: newest answer, newest passage, raters, erased raters.

    The first part covers its state, looks, predictions, and tags of scripts.
    """
    answer = select(func.max(Answer.id)).join(Trial, col(Trial.id) == col(Answer.trial_id))
    passage = select(func.max(Passage.id)).join(Rater, col(Rater.id) == col(Passage.rater_id))
    raters = select(func.count()).select_from(Rater).where(Rater.campaign_id == campaign.id)
    looks = select(func.count()).select_from(Look).where(Look.campaign_id == campaign.id)
    clips = select(Stimulus.clip_sha).where(Stimulus.campaign_id == campaign.id)
    predictions = select(func.count()).select_from(Prediction).where(col(Prediction.clip_sha).in_(clips))
    erased = select(func.count()).select_from(Removal).where(Removal.campaign_id == campaign.id)
    tags = select(Item.tags, func.count(), func.sum(Item.id)).where(Item.campaign_id == campaign.id, Item.tags != "")
    tagged = sorted(tuple(row) for row in session.exec(tags.group_by(col(Item.tags))))
    return (
        f"{campaign.id} {campaign.state} {session.exec(looks).one()} {session.exec(predictions).one()} {tagged}",
        session.exec(answer.where(Trial.campaign_id == campaign.id)).one() or 0,
        session.exec(passage.where(Rater.campaign_id == campaign.id)).one() or 0,
        session.exec(raters).one(),
        session.exec(erased).one(),
    )
