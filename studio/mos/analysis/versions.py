"""The version of a campaign's results: values that change with every change of the results; a cache by it."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from sqlmodel import Session, col, func, select

from studio.mos.store.tables import Answer, Campaign, Item, Look, Passage, Prediction, Rater, Removal, Stimulus, Trial

ResultsVersion = tuple[str, int, int, int, int]
K = TypeVar("K")
V = TypeVar("V")


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


class VersionedCache(Generic[K, V]):
    """Values by key with the version of their campaign, the ``size`` most recently used ones; thread-safe."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[K, tuple[ResultsVersion, V]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K, version: ResultsVersion, make: Callable[[], V]) -> tuple[ResultsVersion, V]:
        """The version and its value, which ``make`` computes outside the lock if the cache has another version."""
        with self._lock:
            entry = self._entries.get(key)
        if entry is None or entry[0] != version:
            entry = (version, make())
        with self._lock:
            self._entries[key] = entry
            self._entries.move_to_end(key)
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)
        return entry
