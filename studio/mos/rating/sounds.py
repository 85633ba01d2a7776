"""The sounds that a rater's page fetches: clips by the screen they stand on, and those of the checks before."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from sqlmodel import Session, col, select

from studio.mos.kinds.registry import kind_of
from studio.mos.rating import environment, headphones, sittings
from studio.mos.rating.campaigns import Running
from studio.mos.rating.disguise import disguised
from studio.mos.store.access import Access, Forbidden
from studio.mos.store.clips import ClipFolder
from studio.mos.store.database import Store
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.raters import Rater
from studio.mos.store.tables.stimuli import Clip, Stimulus
from studio.mos.store.tables.trials import Slot

_CLIPS_KNOWN = 50_000

RaterOf = Callable[[Session, int], tuple[Rater, Running]]


class RaterSounds:
    """What raters hear; each address is good for one rater alone."""

    def __init__(self, store: Store, clips: ClipFolder, access: Access, rater_of: RaterOf) -> None:
        self._store, self._clips, self._access, self._rater_of = store, clips, access, rater_of
        self._known: OrderedDict[tuple[str, int], tuple[Path, int | None]] = OrderedDict()
        self._lock = threading.Lock()

    def clip(self, rater_id: int, trial: str, slot: int, key: str) -> Path | bytes:
        """The file behind a clip's address, or its bytes where it must not be known again on the same screen.

        Raises:
            Forbidden: the address was not made for this rater.
            BadFile: the clip cannot be read.
        """
        self._access.check_clip(rater_id, trial, slot, key)
        with self._lock:
            known = self._known.get((trial, slot))
        path, samples = known or self._look_up(trial, slot)
        with self._lock:
            self._known[trial, slot] = path, samples
            while len(self._known) > _CLIPS_KNOWN:
                self._known.popitem(last=False)
        return path if samples is None else disguised(path, samples, self._access.clip_seed(trial, slot))

    def headphone(self, rater_id: int, index: int) -> bytes:
        """One of the WAV files of the rater's headphone check. Raises BadOption where there is none."""
        run, seed = self._check(rater_id, "headphones")
        return headphones.trial(run.config.gates.headphones, seed, index).wav

    def environment(self, rater_id: int, index: int) -> bytes:
        """One of the WAV files of the rater's environment test, two a pair. Raises BadOption where there is none."""
        return environment.sound(self._check(rater_id, "environment")[1], index)

    def _look_up(self, trial: str, slot: int) -> tuple[Path, int | None]:
        """Where a sound lies; and how long all of its screen are to be, where one of them is there twice."""
        with self._store.read() as session:
            rows = session.exec(
                select(Slot.slot, Clip.sha, Clip.samples, Campaign.kind)
                .join(Stimulus, col(Stimulus.id) == col(Slot.stimulus_id))
                .join(Clip, col(Clip.sha) == col(Stimulus.clip_sha))
                .join(Campaign, col(Campaign.id) == col(Stimulus.campaign_id))
                .where(Slot.trial_id == trial)
            ).all()
        for at, sha, _, kind in rows:
            if at == slot:
                longest = max(samples for _, _, samples, _ in rows)
                return self._clips.path(sha), longest if kind_of(kind).same_sound_twice else None
        raise Forbidden("there is no such sound", "reload the page")

    def _check(self, rater_id: int, stage: str) -> tuple[Running, int]:
        """A rater's campaign, and the seed of their check before the trials."""
        with self._store.read() as session:
            rater, run = self._rater_of(session, rater_id)
            return run, sittings.check_seed(rater, sittings.tries(session, rater, stage))
