"""Merge of a campaign's raters from another database, with their trials and answers."""

import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from sqlmodel import Session, col, func, select

from studio.core.errors import BadFile
from studio.mos.sessions.erasure import delete_rater, person_of
from studio.mos.store.tables import (
    Answer,
    Campaign,
    Choice,
    Passage,
    Play,
    Rater,
    Removal,
    Score,
    Slot,
    Take,
    Trial,
    row_id,
)

_MARKS = (Score, Choice, Play)
_AT_ONCE = 500  # answers in memory
_LONG_AT_ONCE = 20  # rows with long columns in memory


class RaterMerge:
    """Merges the raters of the campaign ``there`` into ``here``, without previews.

    Args:
        stimuli: our id of each of their stimuli; ``items`` and ``units`` map likewise and are set if there are raters.
    """

    def __init__(
        self, theirs: Session, ours: Session, there: Campaign, here: Campaign, stimuli: Mapping[int, int]
    ) -> None:
        self._theirs, self._ours = theirs, ours
        self._there, self._here = there, here
        self._stimuli = stimuli
        self.items: Mapping[int, int] = {}
        self.units: Mapping[str, str] = {}
        self.notes: list[str] = []
        self.traces: list[str] = []  # traces of new takes
        self.dropped: list[str] = []  # unreferenced traces of raters erased here
        self.removals: dict[str, int] = {}  # counted answers of raters erased there, by our pseudonym

    def apply_removals(self, accept: bool) -> int:
        """Apply removals of the other database; returns the number of new ones.

        Raters are matched by a digest of their identity, never by pseudonym, which every export contains. Raters with
        data here are listed in ``removals``, and erased only if ``accept`` is set.
        """
        new, nameless = 0, 0
        known = self._removals(self._ours, self._here)
        present = self._present()
        for removal in self._removals(self._theirs, self._there):
            if not removal.person:
                nameless += 1
                continue
            here = {name: n for name, n, joined_at in present.get(removal.person, ()) if joined_at <= removal.at}
            self.removals |= here
            if here and accept:
                del present[removal.person]
                for pseudonym in here:
                    self.dropped += delete_rater(self._ours, self._here, pseudonym, removal.at)[1]
                new += len(here)
            elif not here and not any(_is_same(removal, one) for one in known):
                self._ours.add(Removal(**moved_row(removal, campaign_id=self._here.id)))
                new += 1
        if nameless:
            self.notes.append(f"{nameless} removals of an older version have only a pseudonym and were not merged")
        self._ours.flush()
        return new

    def _present(self) -> dict[str, list[tuple[str, int, float]]]:
        """Our raters by removal digest: pseudonym, counted answers, and time of joining."""
        raters = self._ours.exec(
            select(Rater.pseudonym, Rater.identity, Rater.joined_at, func.count(col(Answer.id)))
            .outerjoin(Trial, col(Trial.rater_id) == col(Rater.id))
            .outerjoin(Answer, (col(Answer.trial_id) == col(Trial.id)) & (col(Answer.counted) == 1))
            .where(Rater.campaign_id == self._here.id, Rater.role == "panel")
            .group_by(Rater.pseudonym, Rater.identity, col(Rater.joined_at))
        )
        raters_by_digest: defaultdict[str, list[tuple[str, int, float]]] = defaultdict(list)
        for name, identity, joined_at, answers in raters:
            raters_by_digest[person_of(identity)].append((name, answers, joined_at))
        return raters_by_digest

    def merge(self) -> tuple[int, int, int]:
        """Add missing raters, trials and answers; returns the number of each."""
        gone = self._removals(self._ours, self._here)
        pseudonyms = self._pseudonyms()
        raters = trials = answers = 0
        wanted = select(Rater.id).where(Rater.campaign_id == self._there.id, Rater.role == "panel")
        for rater_id in self._theirs.exec(wanted.order_by(col(Rater.id))).all():
            rater = self._theirs.get_one(Rater, rater_id)
            trials_there = self._trials_of(self._theirs, rater.id)
            identity, here = self._known(rater, trials_there)
            if here is None and any(_applies_to(removal, rater) for removal in gone):
                self.notes.append(f"{rater.pseudonym} was erased here and is not merged")
                continue
            if here is None:
                here = Rater(**moved_row(rater, campaign_id=self._here.id, identity=identity))
                while here.pseudonym in pseudonyms:
                    here.pseudonym = f"r{secrets.token_hex(5)}"
                pseudonyms.add(here.pseudonym)
                raters += 1
            elif rater.seen_at > here.seen_at:
                for name in ("stage", "consent_version", "seen_at", "finished_at"):
                    setattr(here, name, getattr(rater, name))
            self._ours.add(here)
            self._ours.flush()
            self._passages(rater, row_id(here))
            trials += self._trials(trials_there, row_id(here))
            self._takes(trials_there)
            answers += self._answers(rater, row_id(here))
        return raters, trials, answers

    def _known(self, rater: Rater, trials_there: list[Trial]) -> tuple[str, Rater | None]:
        """The identity of a rater here, and their row if any. In a copied database a session may have diverged."""
        identity = rater.identity
        while True:
            here = self._ours.exec(
                select(Rater).where(Rater.campaign_id == self._here.id, Rater.identity == identity)
            ).first()
            ours = [] if here is None else self._trials_of(self._ours, here.id)
            if here is None or not trials_there or not ours or ours[0].id == trials_there[0].id:
                return identity, here
            if identity.endswith(trials_there[0].id):
                raise BadFile(
                    f"the rater {rater.pseudonym} is not the same in both databases", "leave the campaign out"
                )
            identity = f"{rater.identity}+{trials_there[0].id}"

    def _passages(self, rater: Rater, here: int) -> None:
        known = set(self._ours.exec(select(Passage.stage, Passage.at).where(Passage.rater_id == here)))
        query = select(Passage).where(Passage.rater_id == rater.id).order_by(col(Passage.id))
        for some in self._theirs.exec(query.execution_options(yield_per=_LONG_AT_ONCE)).partitions():
            for passage in some:
                if (passage.stage, passage.at) not in known:
                    self._ours.add(Passage(**moved_row(passage, rater_id=here)))
            self._ours.flush()

    def _trials(self, trials_there: list[Trial], here: int) -> int:
        """Merge a rater's trials; returns the number of new ones."""
        known = {t.id: t for t in self._trials_of(self._ours, here)}
        new = [t for t in trials_there if t.id not in known]
        for trial in trials_there:
            if trial.id in known:
                before = known[trial.id]
                before.issued_at = before.issued_at or trial.issued_at
                self._ours.add(before)
        for trial in new:
            if self._ours.get(Trial, trial.id) is not None:
                raise BadFile(f"the trial {trial.id} belongs to another rater here", "leave the campaign out")
            if trial.unit not in self.units:
                raise BadFile(f"the other database is inconsistent at the trial {trial.id}", "restore a backup of it")
            moved: dict[str, Any] = {
                "campaign_id": self._here.id,
                "rater_id": here,
                "unit": self.units[trial.unit],
                "lead": self._stimuli[trial.lead],
                "item_id": self.items[trial.item_id],
            }
            self._ours.add(Trial(**trial.model_dump() | moved))
        self._ours.flush()
        for slot in self._of(Slot, Slot.trial_id, [t.id for t in new]):
            self._ours.add(Slot(**slot.model_dump() | {"stimulus_id": self._stimuli[slot.stimulus_id]}))
        self._ours.flush()
        return len(new)

    def _takes(self, trials_there: list[Trial]) -> None:
        query = select(Take).where(col(Take.trial_id).in_([t.id for t in trials_there]))
        for some in self._theirs.exec(query.execution_options(yield_per=_LONG_AT_ONCE)).partitions():
            for take in some:
                if self._ours.get(Take, (take.trial_id, take.slot, take.number)) is None:
                    self._ours.add(Take(**take.model_dump()))
                    self.traces.append(take.trace)
            self._ours.flush()

    def _answers(self, rater: Rater, here: int) -> int:
        """Merge a rater's answers in order: the first to a trial counts, over both databases."""
        known: defaultdict[str, list[tuple[str, float]]] = defaultdict(list)  # digest and time, by trial
        counted: set[str] = set()
        columns = select(Answer.trial_id, Answer.digest, Answer.received_at, Answer.counted)
        is_of_trial = col(Trial.id) == col(Answer.trial_id)
        for trial, digest, at, counts in self._ours.exec(
            columns.join(Trial, is_of_trial).where(Trial.rater_id == here)
        ):
            known[trial].append((digest, at))
            counted |= {trial} if counts else set()
        new = 0
        query = select(Answer).join(Trial, is_of_trial).where(Trial.rater_id == rater.id).order_by(col(Answer.id))
        for some in self._theirs.exec(query.execution_options(yield_per=_AT_ONCE)).partitions():
            rows: dict[int, Answer] = {}
            for answer in some:
                before = known[answer.trial_id]
                if (answer.digest, answer.received_at) in before:
                    continue
                before.append((answer.digest, answer.received_at))
                counts = answer.counted and answer.trial_id not in counted
                counted |= {answer.trial_id} if counts else set()
                rows[row_id(answer)] = Answer(**moved_row(answer, attempt=len(before), counted=int(counts)))
            self._ours.add_all(rows.values())
            self._ours.flush()
            for marks in _MARKS:
                for mark in self._of(marks, marks.answer_id, list(rows)):
                    self._ours.add(marks(**mark.model_dump() | {"answer_id": rows[mark.answer_id].id}))
            self._ours.flush()
            new += len(rows)
        return new

    def _of(self, table: Any, column: Any, keys: list[Any]) -> Iterable[Any]:
        return self._theirs.exec(select(table).where(col(column).in_(keys))).all() if keys else []

    def _trials_of(self, session: Session, rater_id: int | None) -> list[Trial]:
        return list(session.exec(select(Trial).where(Trial.rater_id == rater_id).order_by(col(Trial.position))))

    def _removals(self, session: Session, campaign: Campaign) -> list[Removal]:
        return list(session.exec(select(Removal).where(Removal.campaign_id == campaign.id)))

    def _pseudonyms(self) -> set[str]:
        return set(self._ours.exec(select(Rater.pseudonym).where(Rater.campaign_id == self._here.id)))


def _is_same(one: Removal, other: Removal) -> bool:
    """Whether two removals are the same; the pseudonym may differ if it was taken."""
    return one.person == other.person and (one.pseudonym == other.pseudonym or one.at == other.at)


def _applies_to(removal: Removal, rater: Rater) -> bool:
    """Whether a rater was erased by a removal and has not joined again since."""
    if not removal.person:  # made here by an older version
        return removal.pseudonym == rater.pseudonym
    return removal.person == person_of(rater.identity) and rater.joined_at <= removal.at


def moved_row(row: Any, **ours: Any) -> dict[str, Any]:
    """A row's columns without its id, some of them replaced."""
    return {**row.model_dump(exclude={"id"}), **ours}
