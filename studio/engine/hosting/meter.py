"""What an engine counts while it works: batch sizes and time of each module, utterances, sound, stalls."""

from dataclasses import dataclass, field, replace

from studio.core.load import EngineLoad, ModuleLoad
from studio.engine.hosting.places import Places
from studio.engine.utterances.local import LocalUtterance


@dataclass
class _Counts:
    """One module's runs and their time by batch size."""

    runs: dict[int, int] = field(default_factory=dict[int, int])
    ms: dict[int, float] = field(default_factory=dict[int, float])
    slow: int = 0


class Meter:
    """Written by the engine's thread, read by any."""

    def __init__(self) -> None:
        self._modules: dict[tuple[str, str], _Counts] = {}
        self._past = EngineLoad(places=0, speaking=0)
        self._opened, self._queued_ms = 0, 0.0

    def began(self, utterance: LocalUtterance) -> None:
        """An utterance got its place."""
        self._opened += 1
        self._queued_ms += utterance.queued_ms

    def ran(self, voice: str, module: str, rows: int, ms: float, *, is_slow: bool = False) -> None:
        """A module ran for so many rows."""
        counts = self._modules.setdefault((voice, module), _Counts())
        counts.runs[rows] = counts.runs.get(rows, 0) + 1
        counts.ms[rows] = counts.ms.get(rows, 0.0) + ms
        counts.slow += is_slow

    def left(self, utterance: LocalUtterance) -> None:
        """An utterance is over."""
        self._past = _with(self._past, utterance)

    def load(self, places: Places) -> EngineLoad:
        """Everything so far, and what those who speak have made until now."""
        load, active = self._past, places.speaking()
        for utterance in active:
            load = _with(load, utterance)
        modules = tuple(
            ModuleLoad(voice, name, dict(counts.runs), dict(counts.ms), counts.slow)
            for (voice, name), counts in [*self._modules.items()]
        )
        speaking = sum(not one.done for one in active)
        load = replace(load, opened=self._opened, queued_ms=self._queued_ms, refused=places.refused, modules=modules)
        return replace(load, places=places.count, speaking=speaking, waiting=places.waiting)


def _with(load: EngineLoad, one: LocalUtterance) -> EngineLoad:
    return replace(
        load,
        failed=load.failed + one.failed,
        audio_s=load.audio_s + one.samples / one.card.sample_rate_hz,
        stalls=load.stalls + one.stalls,
        stalled_ms=load.stalled_ms + one.stalled_ms,
    )
