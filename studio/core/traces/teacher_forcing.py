"""Teacher forcing: running a model on given frames instead of sampled ones; data classes and engine ports.

Two inputs: a recording with its text, which becomes a trace, and a trace's own frames, for its attention. Neither uses
a concurrency slot.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from studio.core.cards import Card
from studio.core.errors import StudioError
from studio.core.traces.trace import Trace

MIN_RECORDING_S, MAX_RECORDING_S = 0.05, 600.0


class NotSupported(StudioError, code="unable"):
    """A family does not support the operation."""


class CallerGone(StudioError, code="left"):
    """The caller no longer waits, so the computation was stopped."""


@dataclass(frozen=True)
class WordSpan:
    """A written word of a recording, in seconds."""

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class TeacherForcingRequest:
    """A recording to run through a model.

    Attributes:
        pcm: int16 [T].
        text: its words.
        voice: ``name`` or ``name:speaker``; empty for the engine's first voice.
        options: the family's, by name; absent ones take their defaults.
        spans: times of its words, in place of ``text``; empty if the model finds the ends of words itself.
        placed_by: source of ``spans``.
    """

    pcm: np.ndarray
    rate_hz: int
    text: str = ""
    voice: str = ""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    spans: Sequence[WordSpan] = ()
    placed_by: str = ""


@dataclass(frozen=True, eq=False)
class TeacherForcingResult:
    """A model's output for each of F frames.

    Attributes:
        what: description of the columns of ``by_layer``.
        word: int32 [F], the spoken word of column 0; -1 for frames outside of all segments.
        by_layer: float16 [L, F, K], shares of attention on words ``word`` to ``word + K - 1``, mean over heads.
        p_eos: float32 [F]; NaN where unknown.
        log_likelihood: float32 [F], natural log-probability of the whole frame at temperature 1; NaN where unknown.
    """

    what: str
    word: np.ndarray
    by_layer: np.ndarray
    p_eos: np.ndarray
    log_likelihood: np.ndarray

    @property
    def shares(self) -> np.ndarray:
        """Mean over layers, float32 [F, K]."""
        return self.by_layer.astype(np.float32).mean(0)

    def difference(self, p_eos: np.ndarray) -> float:
        """Largest difference from a trace's p_eos; NaN if nothing can be compared.

        A small one shows that the model was fed the same text as when the trace was made.
        """
        count = min(len(p_eos), len(self.p_eos))
        away = np.abs(p_eos[:count] - self.p_eos[:count])
        return float(np.nanmax(away)) if np.isfinite(away).any() else float("nan")

    def layers(self) -> dict[str, np.ndarray]:
        """As ``studio.core.traces.trace.Trace.layers``."""
        return {
            "log_likelihood": self.log_likelihood,
            "attention": self.shares.astype(np.float16),
            "attention_word": self.word,
        }


def stored_attention(trace: Trace) -> TeacherForcingResult | None:
    """The attention stored in a trace, as one layer; None if there is none."""
    if "attention" not in trace.layers:
        return None
    unknown = np.full(len(trace.p_eos), np.nan, np.float32)
    return TeacherForcingResult(
        "attention to each word that was in view, mean of layers and heads",
        trace.layers["attention_word"],
        trace.layers["attention"][None],
        trace.p_eos,
        trace.layers.get("log_likelihood", unknown),
    )


def never_stop() -> bool:
    """Default of ``should_continue``: run to the end."""
    return True


@runtime_checkable
class SupportsAttention(Protocol):
    """An engine that computes attention; one call at a time, on the caller's thread, while utterances are spoken."""

    def compute_attention(self, trace: Trace, should_continue: Callable[[], bool] = never_stop) -> TeacherForcingResult:
        """The model's attention while it made a trace's frames; the trace is not changed.

        Args:
            should_continue: called between segments.

        Raises:
            Busy: another computation is running.
            BadFile: the trace holds no frames, or does not record the model's input.
            BadVoice: its voice is missing or has changed.
            NotSupported: its family does not support teacher forcing.
            CallerGone: ``should_continue`` returned False.
        """
        ...


@runtime_checkable
class SupportsTeacherForcing(Protocol):
    """An engine that runs recordings through a voice; shares the one-at-a-time limit of ``SupportsAttention``."""

    def teacher_forcing_cards(self) -> Sequence[Card]:
        """Cards of the voices that support it, the default first."""
        ...

    def teacher_force(
        self, recording: TeacherForcingRequest, should_continue: Callable[[], bool] = never_stop
    ) -> Trace:
        """Run a recording through a voice's model and return a trace.

        Args:
            should_continue: called between segments.

        Raises:
            Busy, NotSupported, CallerGone: as ``SupportsAttention.compute_attention``.
            BadVoice: there is no such voice or speaker.
            BadOption: the family has no such options.
            BadText: the text has no word.
            BadFile: the recording is too long, or a word lies beyond its end.
        """
        ...


@runtime_checkable
class SupportsOverlappedVocoding(Protocol):
    """An engine that vocodes a trace's frames again, segment by segment."""

    def vocode_overlapped(self, trace: Trace, should_continue: Callable[[], bool] = never_stop) -> Trace:
        """The same utterance, its frames vocoded a segment at a time and cross-faded instead of causally.

        Args:
            should_continue: called before each segment.

        Raises:
            BadVoice: the voice is missing, or has other weights than when the trace was made.
            BadFile: the trace holds no frames, no segments, or too much sound.
            NotSupported: its vocoder has no causal counterpart.
            Busy: another computation is running.
            CallerGone: ``should_continue`` returned False.
        """
        ...


@runtime_checkable
class SupportsRecomputer(Protocol):
    """An engine whose recomputations can run in another process."""

    def recomputer(self) -> Any:
        """An object with the protocols above, speakers and ``voice_folders()``; unpickled, it loads its voices anew."""
        ...


def recomputer_of(engine: Any) -> Any:
    """The engine's recomputer; an engine without one is returned, and may have the methods itself."""
    return engine.recomputer() if isinstance(engine, SupportsRecomputer) else engine
