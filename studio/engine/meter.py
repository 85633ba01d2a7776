"""What an engine counts while it works: batch sizes and time of each module, utterances, sound, stalls."""

from dataclasses import dataclass, field, replace

from studio.core.load import EngineLoad, ModuleLoad
from studio.engine.utterances.local import LocalUtterance


@dataclass
class _Counts:
    """One module's runs and their time by batch size."""

    runs: dict[int, int] = field(default_factory=dict[int, int])
    ms: dict[int, float] = field(default_factory=dict[int, float])


class Meter:
    """Written by the engine's thread, read by any."""

    def __init__(self) -> None:
        self._modules: dict[tuple[str, str], _Counts] = {}
        self._past = EngineLoad(places=0, speaking=0)
        self.opened = self.refused = 0

    def ran(self, voice: str, module: str, rows: int, ms: float) -> None:
        """A module ran for so many rows."""
        counts = self._modules.setdefault((voice, module), _Counts())
        counts.runs[rows] = counts.runs.get(rows, 0) + 1
        counts.ms[rows] = counts.ms.get(rows, 0.0) + ms

    def left(self, utterance: LocalUtterance) -> None:
        """An utterance is over."""
        self._past = _with(self._past, utterance)

    def load(self, places: int, waiting: int, active: list[LocalUtterance]) -> EngineLoad:
        """Everything so far, and what those who speak have made until now."""
        load = self._past
        for utterance in active:
            load = _with(load, utterance)
        modules = tuple(
            ModuleLoad(voice, name, dict(counts.runs), dict(counts.ms))
            for (voice, name), counts in [*self._modules.items()]
        )
        speaking = sum(not one.done for one in active)
        load = replace(load, opened=self.opened, refused=self.refused, modules=modules)
        return replace(load, places=places, speaking=speaking, waiting=waiting)


def _with(load: EngineLoad, one: LocalUtterance) -> EngineLoad:
    return replace(
        load,
        failed=load.failed + one.failed,
        audio_s=load.audio_s + one.samples / one.card.sample_rate_hz,
        stalls=load.stalls + one.stalls,
        stalled_ms=load.stalled_ms + one.stalled_ms,
    )
