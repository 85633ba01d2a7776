"""What a net says of frames that it is given instead of drawing them: teacher forcing, in figures and as a port.

Two things are forced: a recording with its text, which becomes a trace; and the frames that a trace holds, so that one
sees where the net attended while it made them. Neither touches the places where utterances are spoken.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from studio.core.cards import Card
from studio.core.errors import StudioError
from studio.core.traces.trace import Trace

MIN_FORCED_S, MAX_FORCED_S = 0.05, 600.0  # of sound at once


class Unable(StudioError):
    """A family cannot do what was asked, and says why."""

    code = "unable"


class Left(StudioError):
    """Whoever asked is gone, so the answer was not finished."""

    code = "left"


@dataclass(frozen=True)
class WordSpan:
    """A written word of a recording, in seconds of it."""

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Recording:
    """A recording that is to be sent through a model.

    Attributes:
        pcm: int16 [T].
        text: what it says.
        voice: ``name`` or ``name:speaker``; empty for the engine's first voice.
        options: the family's, by name; absent ones take their defaults.
        spans: where its words lie, in place of ``text``; empty where the model is to find their ends itself.
        placed_by: what placed them.
    """

    pcm: np.ndarray
    rate_hz: int
    text: str = ""
    voice: str = ""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    spans: Sequence[WordSpan] = ()
    placed_by: str = ""


@dataclass(frozen=True, eq=False)
class Attended:
    """What a net said of each of F frames.

    Attributes:
        what: what the columns of ``by_layer`` are, in words.
        word: int32 [F], the spoken word of column 0; -1 where no segment holds the frame.
        by_layer: float16 [L, F, K], shares of attention on words ``word`` to ``word + K - 1``, mean of a layer's heads.
        p_eos: float32 [F], as computed now; NaN where it is not known.
        log_likelihood: float32 [F], natural logarithm of the probability of the whole frame at temperature 1; NaN where
            it is not known.
    """

    what: str
    word: np.ndarray
    by_layer: np.ndarray
    p_eos: np.ndarray
    log_likelihood: np.ndarray

    @property
    def shares(self) -> np.ndarray:
        """Mean of the layers, float32 [F, K]."""
        return self.by_layer.astype(np.float32).mean(0)

    def difference(self, p_eos: np.ndarray) -> float:
        """How far p_eos lies from that of a trace, at most; NaN where nothing can be compared.

        What was fed is told by the trace's segments; where the two agree, it was fed so.
        """
        count = min(len(p_eos), len(self.p_eos))
        away = np.abs(p_eos[:count] - self.p_eos[:count])
        return float(np.nanmax(away)) if np.isfinite(away).any() else float("nan")

    def layers(self) -> dict[str, np.ndarray]:
        """As a trace's further layers; see ``studio.core.traces.trace.Trace``."""
        return {
            "log_likelihood": self.log_likelihood,
            "attention": self.shares.astype(np.float16),
            "attention_word": self.word,
        }


def kept_attention(trace: Trace) -> Attended | None:
    """What a trace keeps itself; None where it keeps none. Layers are not told apart there."""
    if "attention" not in trace.layers:
        return None
    unknown = np.full(len(trace.p_eos), np.nan, np.float32)
    return Attended(
        "attention to each word that was in view, mean of layers and heads",
        trace.layers["attention_word"],
        trace.layers["attention"][None],
        trace.p_eos,
        trace.layers.get("log_likelihood", unknown),
    )


def always() -> bool:
    """Whoever asked waits until the end."""
    return True


@runtime_checkable
class Attends(Protocol):
    """An engine that can force frames; one call at a time, on the caller's thread, beside those that are spoken."""

    def attend(self, trace: Trace, wanted: Callable[[], bool] = always) -> Attended:
        """Where the net attended while it made a trace's frames; its samples stay what they are.

        Args:
            wanted: asked between segments; once it says no, Left is raised.

        Raises:
            Busy: another one is being computed.
            BadFile: the trace holds no frames, or does not say what was fed.
            BadVoice: its voice is not here, or is another one by now.
            Unable: its family cannot be forced.
            Left: it is not wanted any more.
        """
        ...


@runtime_checkable
class Forces(Protocol):
    """An engine that takes recordings; with those of ``Attends`` one call at a time, on the caller's thread."""

    def forcible(self) -> Sequence[Card]:
        """Cards of the voices whose nets can be given frames, the default first."""
        ...

    def force(self, recording: Recording, wanted: Callable[[], bool] = always) -> Trace:
        """A recording through a voice's net, as a trace.

        Args:
            wanted: as of ``Attends``.

        Raises:
            Busy, Unable, Left: as of ``Attends``.
            BadVoice: there is no such voice or speaker.
            BadOption: its family takes no such options.
            BadText: there is no word in the text.
            BadFile: it is too long, or its words lie beyond its end.
        """
        ...
