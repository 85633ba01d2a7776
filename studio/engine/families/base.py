"""The contract between a family and the engine: rows plan inputs, modules run them, rows interpret the outputs.

A *row* is one request inside a family, in plain Python without torch. A *module* is a pure function of a net over KV
slots. The scheduler batches rows. Families register by name in the entry point group ``studio.families``, also from
other packages.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, runtime_checkable

import numpy as np

from studio.core.cards import Card
from studio.core.errors import BadVoice, StudioError
from studio.core.events import Event, Frames
from studio.core.options import OptionSpec

if TYPE_CHECKING:
    import torch  # rows and requests, which import this module, do not import torch

ENTRY_POINTS = "studio.families"


PENDING: Final = object()  # output of a row whose input needs another step; the row asks for the same input again


class NotFinite(StudioError):
    """A net's output was not finite."""

    code = "not_finite"


@dataclass(frozen=True)
class ModuleInput:
    """One run of a module on a row's slots."""

    module: str
    inputs: Any


@dataclass
class RowOutput:
    """Frames and events of one module output.

    Attributes:
        frames: [k, ...] of the voice's acoustic tokenizer, for the vocoder (k may be 0).
        before, after: events before the frames' audio (segment, word_start) and after it; t_ms unset.
        is_clause_end: True if the next frames are unrelated to these (end of a clause), so that a vocoder with
            look-ahead does not wait for them.
    """

    frames: np.ndarray
    before: list[Event] = field(default_factory=list[Event])
    after: list[Event] = field(default_factory=list[Event])
    is_clause_end: bool = False

    @staticmethod
    def join(parts: Sequence["RowOutput"]) -> "RowOutput":
        """The outputs of consecutive runs, of which only the last may have events after its sound."""
        if len(parts) == 1:
            return parts[0]
        before = list[Event]()
        for event in (event for part in parts for event in part.before):
            last = before[-1] if before else None
            if isinstance(event, Frames) and isinstance(last, Frames):
                levels = np.concatenate((last.levels, event.levels))
                before[-1] = Frames(first_frame=last.first_frame, p_eos=last.p_eos + event.p_eos, levels=levels)
            else:
                before.append(event)
        frames = np.concatenate([part.frames for part in parts])
        return RowOutput(frames, before, parts[-1].after, parts[-1].is_clause_end)


class RowCheckpoint(Protocol):
    """State of a row at a segment's end; a family adds its own fields.

    Attributes:
        spoken: number of words spoken.
        fed: number of words that the net had seen; ``sys.maxsize`` after the text's end.
    """

    @property
    def spoken(self) -> int: ...

    @property
    def fed(self) -> int: ...


class Row(Protocol):
    """One request in a family's slots.

    Attributes:
        slots: set by the engine before the first ``next_input``.
    """

    slots: tuple[int, ...]

    def commit(self, words: Sequence[str]) -> None:
        """Append committed spoken words."""
        ...

    def flush(self) -> None:
        """Speak the committed words without waiting for more."""
        ...

    def end(self) -> None:
        """No more words will come."""
        ...

    def check(self, options: Mapping[str, Any]) -> None:
        """Raises BadOption unless these options (all options of the card) are compatible."""
        ...

    def set_options(self, options: Mapping[str, Any], temperature: float | None) -> None:
        """Set options that were checked, from the next segment on."""
        ...

    @property
    def is_finished(self) -> bool:
        """Whether everything was spoken and nothing can follow."""
        ...

    @property
    def unspoken(self) -> int:
        """Committed words that are in no segment yet."""
        ...

    def next_input(self) -> ModuleInput | None:
        """What to run next; None if words are missing or everything was spoken. Idempotent."""
        ...

    def on_output(self, outputs: Any) -> RowOutput:
        """Process the output of that run. Raises NotFinite."""
        ...

    def on_cancel(self) -> list[Event]:
        """Outstanding events of frames already made, when the request is cancelled."""
        ...

    def checkpoint(self) -> Any:
        """The state at a segment's end, for ``restore``; None within a segment."""
        ...

    def restore(self, checkpoint: Any) -> None:
        """Return to a checkpoint; committed words stay."""
        ...

    def rewrite(self, i: int, words: Sequence[str]) -> None:
        """Replace the committed words from ``i`` on, none of which has been fed since the restored checkpoint."""
        ...


@runtime_checkable
class RevisableRow(Row, Protocol):
    """A row that supports revision: ``rewrite`` accepts any word not spoken yet and reopens a text that has ended.

    Tokens that depend on a replaced word are fed again before the next segment, with the frames made from them.
    """

    @property
    def spoken(self) -> int:
        """Words spoken, including those of the current segment."""
        ...

    @property
    def fed(self) -> int:
        """Words that the net has seen; ``sys.maxsize`` after the text's end."""
        ...

    def checkpoint(self) -> RowCheckpoint | None:
        """See ``Row``."""
        ...

    def can_restore(self, checkpoint: Any) -> bool:
        """Whether a checkpoint can still be restored."""
        ...

    def discard_before(self, checkpoint: Any) -> None:
        """Discard state that only earlier checkpoints need; none of them will be restored."""
        ...


class Module(Protocol):
    """A pure function of a net; a row's output does not depend on its batch.

    Attributes:
        max_rows: batch size limit.
    """

    max_rows: int

    def run(self, slots: Any, rows: Sequence[tuple[int, ...]], inputs: Sequence[Any]) -> list[Any]:
        """Run rows, given by their slots, on their inputs.

        Returns the argument of each row's ``on_output``, or PENDING.
        A run that raises leaves every row's length unchanged, so that each row can be retried alone.
        """
        ...


class Family(Protocol):
    """A loaded net with slots for several rows.

    Attributes:
        slots: the state of all rows, first dimension = slot; ``reset(slot)`` prepares one for a new row.
        modules: by name, in the order in which the scheduler runs them.
        slots_per_row: number of slots that a row needs (two with guidance).
    """

    slots: Any
    modules: Mapping[str, Module]
    slots_per_row: int

    def row(
        self, slots: tuple[int, ...], speaker: int, options: Mapping[str, Any], temperature: float, seed: int
    ) -> Row:
        """A new row in slots that were reset. Raises BadOption."""
        ...

    def prompt(self, speaker: int) -> np.ndarray:
        """Frames [S, ...] that precede every utterance in the net and the vocoder; their audio is dropped."""
        ...


@runtime_checkable
class SupportsManyFrames(Protocol):
    """A module that can generate several frames in one run (GPU), for rows with enough buffered audio."""

    max_frames: int

    def run(
        self, slots: Any, rows: Sequence[tuple[int, ...]], inputs: Sequence[Any], frames: int = 1
    ) -> list[list[Any]]:
        """``Module.run`` of rows whose inputs are None: a list of ``frames`` outputs for each.

        A row takes them in order while it asks for None, and drops the rest.
        """
        ...


@runtime_checkable
class SupportsCapture(Protocol):
    """A module whose kernels are compiled and whose steps are captured before the first utterance (GPU)."""

    def capture_steps(self) -> Sequence[Callable[[], None]]:
        """Functions that are each called once."""
        ...


@runtime_checkable
class SupportsLookup(Protocol):
    """A family whose look-up of unknown words (G2P) may take long; other rows must not wait for it."""

    def start_lookup(self, words: Sequence[str]) -> Future[None] | None:
        """Prepare words before they are committed: None if they are ready, otherwise a future of the look-up."""
        ...


@runtime_checkable
class SupportsCodec(Protocol):
    """A family whose speakers can be recordings, encoded by the codec that is the voice's vocoder."""

    def set_codec(self, encode: Callable[[np.ndarray], np.ndarray]) -> None:
        """Called once, before the first row. Raises BadVoice: a recording of the voice cannot be a speaker.

        Args:
            encode: samples float32 [T] at the voice's rate to frames, callable from any thread. Raises BadOption.
        """
        ...


@dataclass(frozen=True)
class NewReference:
    """A recording encoded by a family, for ``SupportsReferences.add_reference`` and for storage.

    Attributes:
        tensors: by name.
        length_s: length of the part of the recording that is used.
    """

    tensors: Mapping[str, np.ndarray]
    length_s: float


@runtime_checkable
class SupportsReferences(Protocol):
    """A family that continues a recording of its speaker, so that speakers can be added to a loaded voice.

    ``FamilyInfo.takes_speakers`` tells whether a card's voice supports this.
    """

    def reference_from(self, samples: np.ndarray, words: Sequence[str]) -> NewReference:
        """The reference of a recording; callable from any thread.

        Args:
            samples: float32 [T] at the voice's rate: speech without pauses around it, at a usual level.
            words: the spoken words of the recording; empty if the family needs none.

        Raises BadRecording: the recording and the words do not match.
        """
        ...

    def add_reference(self, tensors: Mapping[str, np.ndarray]) -> int:
        """Add a speaker; returns its number, which stays valid. Callable from any thread. Raises BadVoice."""
        ...


@dataclass(frozen=True)
class FamilyInfo:
    """A family's entry in the registry.

    Attributes:
        options: with their defaults.
        look_ahead_words: number of further committed words that a word waits for, with the default options.
        load: (card, folder, device, slot count) -> family.
        notes: limitations, for the card.
        compared: option sets that benchmark tables compare.
        supports_teacher_forcing: whether the family is a ``common.teacher_forcing.TeacherForcedFamily``.
        fade: how its paper joins separately vocoded chunks, a name of ``studio.engine.vocoders.overlapped``.
        options_of: the options of a voice from the names of its speakers, if they depend on them.
        takes_speakers: whether speakers can be added to the voice of a card (``SupportsReferences``).
        needs_transcript: whether adding a speaker needs the words of the recording.
    """

    name: str
    paper: str
    options: tuple[OptionSpec, ...]
    look_ahead_words: int
    load: Callable[[Card, Path, "torch.device", int], Family]
    notes: str = ""
    compared: tuple[Mapping[str, Any], ...] = ({},)
    supports_teacher_forcing: bool = False
    fade: Literal["equal-power", "hann"] = "equal-power"
    options_of: Callable[[Sequence[str]], tuple[OptionSpec, ...]] | None = None
    takes_speakers: Callable[[Card], bool] = lambda card: False
    needs_transcript: bool = True

    def options_for(self, speakers: Sequence[str]) -> tuple[OptionSpec, ...]:
        """The options of a voice of these speakers, with their defaults."""
        return self.options_of(speakers) if self.options_of else self.options


def family_names() -> list[str]:
    """Names of all registered families, including those of other packages."""
    return sorted({one.name for one in entry_points(group=ENTRY_POINTS)})


@cache  # finding it reads the metadata of every installed package, and a request needs the family of each voice
def family_info(name: str) -> FamilyInfo:
    """The family of a name. Raises BadVoice if it is not registered."""
    registered = {e.name: e for e in entry_points(group=ENTRY_POINTS)}
    if name in registered:
        info = registered[name].load()
        assert isinstance(info, FamilyInfo)
        return info
    raise BadVoice(f"unknown family {name!r}", f"registered families: {', '.join(sorted(registered)) or 'none'}")
