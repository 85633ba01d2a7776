"""Audio for a rater's page: blinded clips of trials, and sounds of the headphone and environment checks."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sqlmodel import Session, col, select

from studio.core.clips import read_wav, wav_bytes
from studio.mos.kinds.registry import kind_of
from studio.mos.sessions import environment, headphones, stages
from studio.mos.sessions.campaigns import LoadedCampaign
from studio.mos.store.access import Access, Forbidden
from studio.mos.store.clips import ClipFolder
from studio.mos.store.database import Store
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.raters import Rater
from studio.mos.store.tables.stimuli import Clip, Stimulus
from studio.mos.store.tables.trials import Slot

_CLIPS_KNOWN = 50_000

RaterOf = Callable[[Session, int], tuple[Rater, LoadedCampaign]]


class RaterSounds:
    """Serves audio to raters; each URL is valid for one rater."""

    def __init__(self, store: Store, clips: ClipFolder, access: Access, rater_of: RaterOf) -> None:
        self._store, self._clips, self._access, self._rater_of = store, clips, access, rater_of
        self._known: OrderedDict[tuple[str, int], tuple[Path, int | None]] = OrderedDict()
        self._lock = threading.Lock()

    def clip(self, rater_id: int, trial: str, slot: int, key: str) -> Path | bytes:
        """The file of a clip, or blinded bytes if the trial may contain the same sound twice.

        Raises:
            Forbidden: the URL was not issued to this rater.
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
        return path if samples is None else blinded_wav(path, samples, self._access.clip_seed(trial, slot))

    def headphone(self, rater_id: int, index: int) -> bytes:
        """A WAV file of the rater's headphone check. Raises BadOption for a wrong index."""
        run, seed = self._check(rater_id, "headphones")
        return headphones.headphone_trial(run.config.gates.headphones, seed, index).wav

    def environment(self, rater_id: int, index: int) -> bytes:
        """A WAV file of the rater's environment test, two per pair. Raises BadOption for a wrong index."""
        return environment.environment_wav(self._check(rater_id, "environment")[1], index)

    def _look_up(self, trial: str, slot: int) -> tuple[Path, int | None]:
        """Path of a clip, and the common length of the trial's clips if they are blinded."""
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
                return self._clips.path(sha), longest if kind_of(kind).has_duplicates else None
        raise Forbidden("there is no such sound", "reload the page")

    def _check(self, rater_id: int, stage: str) -> tuple[LoadedCampaign, int]:
        """A rater's campaign and the seed of their current check."""
        with self._store.read() as session:
            rater, run = self._rater_of(session, rater_id)
            return run, stages.check_seed(rater, stages.count_tries(session, rater, stage))


def blinded_wav(path: Path, samples: int, seed: int) -> bytes:
    """A clip padded with silence to ``samples`` and with random lowest bits (noise at about -93 dBFS).

    All sounds of a trial get the same length, and two copies of one sound different bytes. This does not protect
    against subtracting one sound from another.

    Raises:
        BadFile: the clip cannot be read.
    """
    pcm, rate_hz = read_wav(path)
    longer = np.zeros(max(samples, len(pcm)), np.int16)
    longer[: len(pcm)] = pcm
    bits = np.random.default_rng(seed).integers(2, size=len(longer), dtype=np.int16)
    return wav_bytes((longer & np.int16(-2)) | bits, rate_hz)
