"""The contract between a family and the engine: rows say what they want, modules run it, rows take what came out.

A *row* is one utterance inside a family, plain Python without torch: what to feed next, what a result means.
A *module* is a net's function over slots: pure, the same for whoever shares the batch. The *pool* (engine/pool.py)
stands between them. A family registers under its name; one from another package through the entry point group
``studio.families``.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np

from studio.core.cards import Card, OptionSpec
from studio.core.errors import BadVoice, StudioError
from studio.core.events import Event

if TYPE_CHECKING:
    import torch  # rows and the pool, which import this, know no torch

ENTRY_POINTS = "studio.families"


class NotFinite(StudioError):
    """A net answered something that is no number."""

    code = "not_finite"


@dataclass(frozen=True)
class Want:
    """What a row needs next: one run of a module on its slots."""

    module: str
    inputs: Any


@dataclass
class Turn:
    """What one result meant.

    Attributes:
        frames: [k, ...] of the voice's acoustic alphabet, for the vocoder (k may be 0).
        before, after: events that precede the sound (segment, word_start) and that follow it; t_ms unset.
        is_request_end: what follows is not joined to these frames, so that a vocoder which looks ahead need not wait
            for it.
    """

    frames: np.ndarray
    before: list[Event] = field(default_factory=list[Event])
    after: list[Event] = field(default_factory=list[Event])
    is_request_end: bool = False


class Mark(Protocol):
    """Where a row stood at a segment's end; the rest of it is the family's own.

    Attributes:
        spoken: words spoken before it.
        fed: words that the net had seen; past any word where it had seen the text's end.
    """

    @property
    def spoken(self) -> int: ...

    @property
    def fed(self) -> int: ...


class Row(Protocol):
    """One utterance in a family's slots: words in, wants out, results in, frames out.

    Attributes:
        slots: set by the engine, before anything is wanted.
    """

    slots: tuple[int, ...]

    def commit(self, words: Sequence[str]) -> None:
        """Append spoken words."""
        ...

    def flush(self) -> None:
        """Speak what is committed without waiting for more."""
        ...

    def end(self) -> None:
        """No more words will come."""
        ...

    def check(self, options: Mapping[str, Any]) -> None:
        """Raises BadOption unless these options, all of the card's, go together."""
        ...

    def set_options(self, options: Mapping[str, Any], temperature: float | None) -> None:
        """Options, checked before, from the next segment on."""
        ...

    @property
    def over(self) -> bool:
        """Whether everything was spoken and nothing can follow."""
        ...

    @property
    def unspoken(self) -> int:
        """Committed words that no segment has taken yet."""
        ...

    def want(self) -> Want | None:
        """What to run next; None when words are missing or everything was spoken. Asking twice changes nothing."""
        ...

    def took(self, outputs: Any) -> Turn:
        """Take what the wanted run answered. Raises NotFinite."""
        ...

    def broken_off(self) -> list[Event]:
        """What is still to be told of frames already made, when the utterance is cancelled."""
        ...

    def mark(self) -> Any:
        """Where the row stands, at a segment's end: to come back to. None in the middle of one."""
        ...

    def back(self, mark: Any) -> None:
        """Return to a mark: what was made since is forgotten; committed words stay."""
        ...

    def rewrite(self, i: int, words: Sequence[str]) -> None:
        """Replace the committed words from ``i`` on, none of which has been fed since the mark returned to."""
        ...


@runtime_checkable
class Revisable(Row, Protocol):
    """A row whose utterances can be revised: ``rewrite`` takes any word that was not spoken, and the text goes on.

    What the net has seen of such a word is fed anew before the next segment, with the frames that were made of it.
    """

    @property
    def spoken(self) -> int:
        """Words spoken, those of the present segment among them."""
        ...

    @property
    def fed(self) -> int:
        """Words that the net has seen; past any word where it has seen the text's end."""
        ...

    def mark(self) -> Mark | None:
        """See ``Row``."""
        ...

    def holds(self, mark: Any) -> bool:
        """Whether a mark can still be returned to."""
        ...

    def forget(self, mark: Any) -> None:
        """Nothing before a mark will be returned to."""
        ...


class Module(Protocol):
    """A net's function: pure, and the same for a row whoever shares the batch.

    Attributes:
        most_rows: how many rows one run takes.
    """

    most_rows: int

    def run(self, slots: Any, rows: Sequence[tuple[int, ...]], inputs: Sequence[Any]) -> list[Any]:
        """Run the rows (their slots) on their inputs; answers what each row's ``took`` takes.

        A run that raises has changed no row's length, so that each row may be tried alone.
        """
        ...


class Family(Protocol):
    """A loaded net that hosts several rows.

    Attributes:
        slots: the memory of all rows, first dimension = slot; its ``reset(slot)`` gives one a new owner.
        modules: by name, in the order in which the pool runs them.
        slots_per_row: how many a row owns (guidance needs two).
    """

    slots: Any
    modules: Mapping[str, Module]
    slots_per_row: int

    def row(
        self, slots: tuple[int, ...], speaker: int, options: Mapping[str, Any], temperature: float, seed: int
    ) -> Row:
        """A new row; the engine gives it slots, reset for it, when there is a place. Raises BadOption."""
        ...

    def prompt(self, speaker: int) -> np.ndarray:
        """Frames that come before every utterance and are never heard [S, ...]; the vocoder hears them too."""
        ...


@runtime_checkable
class LooksUp(Protocol):
    """A family whose rows may need long for words that they never met; others must not wait for it meanwhile."""

    def looked_up(self, words: Sequence[str]) -> Future[None] | None:
        """When spoken words can be committed to a row: None for now, else when this is done. Called by the engine."""
        ...


@dataclass(frozen=True)
class FamilyInfo:
    """A family as the registry knows it.

    Attributes:
        options: with their defaults.
        look_ahead_words: committed words that a word waits for, with these defaults.
        load: takes (card, folder, device, places).
        notes: what it cannot do; for the card.
        compared: options that tables of measurements put beside each other.
        can_force: whether what ``load`` answers can be given frames; see ``studio.engine.families.forcing.Forcible``.
        fade: how its paper joins chunks that are vocoded apart, a name of ``studio.engine.vocoders.fades``.
        options_of: the options of a voice by the names of its speakers, where they depend on these.
    """

    name: str
    paper: str
    options: tuple[OptionSpec, ...]
    look_ahead_words: int
    load: Callable[[Card, Path, "torch.device", int], Family]
    notes: str = ""
    compared: tuple[Mapping[str, Any], ...] = ({},)
    can_force: bool = False
    fade: Literal["equal-power", "hann"] = "equal-power"
    options_of: Callable[[Sequence[str]], tuple[OptionSpec, ...]] | None = None

    def options_for(self, speakers: Sequence[str]) -> tuple[OptionSpec, ...]:
        """The options of a voice of these speakers, with their defaults."""
        return self.options_of(speakers) if self.options_of else self.options


def family_names() -> list[str]:
    """Every registered family, ours and those of other packages."""
    return sorted({one.name for one in entry_points(group=ENTRY_POINTS)})


def family_info(name: str) -> FamilyInfo:
    """The family of a name. Raises BadVoice when nobody registered it."""
    found = {e.name: e for e in entry_points(group=ENTRY_POINTS)}
    if name in found:
        info = found[name].load()
        assert isinstance(info, FamilyInfo)
        return info
    raise BadVoice(f"no family is called {name!r}", f"registered are {', '.join(sorted(found)) or 'none'}")
