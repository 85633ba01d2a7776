"""A recipe's ``[fit]``: what each family's training is told."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from studio.core.errors import BadOption
from studio.engine.families.s5.rule import LARGEST_LOOK_AHEAD
from studio.train.recipes.settings import strict
from studio.train.recipes.windows import WindowDraw


@dataclass(frozen=True, kw_only=True)
class FitRecipe:
    """What every family's training has; ``family`` says which one it is."""

    family: ClassVar[str]
    config: dict[str, Any]
    steps: int
    peak_rate: float
    warmup_share: float
    decay_share: float
    batch_tokens: int
    max_frames: int  # of joined sentences; 30 s at 40 frames a second is 1200
    join_share: float
    noise_share: float  # of input frames whose bins are moved by one level
    crop_share: float = 0.0  # of joined sequences that begin in mid-text
    own_share: float = 0.0  # of input frames, on every second step, that the net draws itself

    @property
    def is_told_by_recordings(self) -> bool:
        """Whether a recording tells the net who speaks, and nothing that it learned of that speaker."""
        return False


@dataclass(frozen=True, kw_only=True)
class SpeakStreamFit(FitRecipe):
    """SpeakStream's training."""

    family: ClassVar[str] = "speakstream"
    windows: WindowDraw
    phone_weight: float
    eos_weight: float


@dataclass(frozen=True, kw_only=True)
class RichTtsFit(FitRecipe):
    """RichTTS's training (paper 000, section IV.A): whole texts, each before its speech.

    Attributes:
        pieces: a text is cut into pieces of so many words, one of these, each a text of its own; 0 leaves it whole.
        guide_weight: of the loss of the head that is guided to the word being spoken; 0 guides none.
    """

    family: ClassVar[str] = "richtts"
    pieces: list[int] = field(default_factory=lambda: [0])
    phone_weight: float
    eos_weight: float
    guide_weight: float = 0.0

    def __post_init__(self) -> None:
        if not self.pieces or not all(type(n) is int and 0 <= n <= 6 for n in self.pieces):
            raise BadOption(
                f"[fit] pieces cannot be {self.pieces!r:.100}", "it lists numbers of words from 1 to 6, or 0 for all"
            )


@dataclass(frozen=True, kw_only=True)
class NgramRichTtsFit(RichTtsFit):
    """n-gram RichTTS's training (section IV.A): the same net, "trained with short segments"."""

    family: ClassVar[str] = "ngram-richtts"
    pieces: list[int] = field(default_factory=lambda: [1, 2, 3, 4, 5, 6])


@dataclass(frozen=True, kw_only=True)
class T5Fit(FitRecipe):
    """T5-TTS's training (paper 001): every sequence is seen whole.

    Attributes:
        cross_weight: of the CTC loss of the cross-attention.
        stop_weight: of the stop token, which is no codec token here.
        reference_frames: the fewest and the most of a speaker's reference, which the voice goes on from; where there is
            one, [fit.config] says the same most, and no embedding tells the speaker.
    """

    family: ClassVar[str] = "t5"
    cross_weight: float
    stop_weight: float
    reference_frames: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        most = 0 if self.reference_frames is None else self.reference_frames[1]
        if most != self.config.get("reference_frames", 0):
            raise BadOption(
                f"[fit] wants references of at most {most} frames and [fit.config] says otherwise",
                "write reference_frames = [fewest, most] into [fit], and reference_frames = most into [fit.config]",
            )
        if self.reference_frames is not None:
            _check_lengths("reference_frames", self.reference_frames)

    @property
    def is_told_by_recordings(self) -> bool:
        """Where there are references."""
        return self.reference_frames is not None


@dataclass(frozen=True, kw_only=True)
class Distillation:
    """How T5-TTS teaches S5-TTS (paper 001, "Interleaved multi-source distillation").

    Attributes:
        hidden_weight, logit_weight: lambda_h and lambda_z.
        mini_batches: of a step, of the corpus and of what the teacher spoke in turn; their gradients are added up.
    """

    hidden_weight: float = 10.0
    logit_weight: float = 1.0
    mini_batches: int = 4

    def __post_init__(self) -> None:
        if self.mini_batches < 2 or self.mini_batches % 2:
            raise BadOption(
                f"[fit.distill] mini_batches cannot be {self.mini_batches!r}", "it is an even number, 2 or more"
            )


@dataclass(frozen=True, kw_only=True)
class S5Fit(T5Fit):
    """S5-TTS's training (paper 001, "Training objective").

    Attributes:
        look_ahead: the k of a sequence is one of these.
        aux_weight: of the CTC loss of the auxiliary attention.
        alignment: whose words the decoder mask goes by: "mas" as in the paper, "corpus" for the corpus' word ends.
        distill: where a T5-TTS teaches a net that was trained before.
    """

    family: ClassVar[str] = "s5"
    look_ahead: list[int]
    aux_weight: float
    alignment: str = "mas"
    distill: Distillation | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alignment not in ("mas", "corpus"):
            raise BadOption(f"[fit] alignment cannot be {self.alignment!r}", "it is mas or corpus")
        if not self.look_ahead or not all(0 <= k <= LARGEST_LOOK_AHEAD for k in self.look_ahead):
            raise BadOption(
                f"[fit] look_ahead cannot be {self.look_ahead!r:.80}",
                f"it lists numbers of words from 1 to {LARGEST_LOOK_AHEAD}, or 0 for all",
            )


@dataclass(frozen=True, kw_only=True)
class IstFit(FitRecipe):
    """IST-LM's training (paper 003, section 3).

    Attributes:
        prompt_frames: fewest and most of a prompt.
        next_share: of joined sentences that are stretches of their own.
        flush_share: of stretches that a flush cuts at a word's end.
        ratios: drawn in training, each as often; all when empty.
        guide_weight: of the loss of the head that is guided to the token being spoken; 0 guides none.
        merge_dropout: of merges of the encoding that are passed over, so that no word has the same tokens each time.
    """

    family: ClassVar[str] = "ist"
    prompt_frames: list[int]
    next_share: float
    flush_share: float
    phone_weight: float
    eos_weight: float
    ratios: list[str] = field(default_factory=list)
    guide_weight: float = 0.0
    merge_dropout: float = 0.0

    def __post_init__(self) -> None:
        _check_lengths("prompt_frames", self.prompt_frames)

    @property
    def is_told_by_recordings(self) -> bool:
        """By a prompt of each speaker."""
        return True


@dataclass(frozen=True, kw_only=True)
class DsmFit(FitRecipe):
    """DSM-TTS's training (paper 002, sections 3.3 and 4.2).

    Attributes:
        extract_frames: the fewest and the most of a recording that tells a speaker, from elsewhere in the corpus.
        text_dropout, speaker_dropout: of sequences that do not know their text, or who speaks (the paper's 20%).
        turn_share: of sequences in which two speakers take turns.
        flush_share: of the others that end at any word's end, as a flush leaves them.
        guide_weight: of the loss of the head that is guided to the token being spoken; 0 guides none.
        merge_dropout: of merges of the encoding that are passed over, so that no word has the same tokens each time.
    """

    family: ClassVar[str] = "dsm"
    extract_frames: tuple[int, int]
    text_dropout: float
    speaker_dropout: float
    turn_share: float
    flush_share: float
    phone_weight: float
    action_weight: float
    guide_weight: float = 0.0
    merge_dropout: float = 0.0

    def __post_init__(self) -> None:
        _check_lengths("extract_frames", self.extract_frames)

    @property
    def is_told_by_recordings(self) -> bool:
        """By a recording of each speaker."""
        return True


@dataclass(frozen=True, kw_only=True)
class TacotronFit(FitRecipe):
    """Incremental Tacotron 2's training (paper 004).

    Attributes:
        clause_words: the most words of a clause, drawn for each text; 0 is all of it at once.
        stop_weight, guide_weight: of the stop token's loss and of the guided attention's.
        last_weight: of a clause's last frame in the stop token's loss, where each other frame counts 1: there are few.
        guide_symbols: how far from the diagonal attention is free, g of Tachibana et al. in symbols.
        given_share: of steps whose attention goes on from where it should have been.
        own_past_share: of clauses, on the steps of ``own_share``, that are fed what the net draws from its own past.
        phone_weight: of the training-only head that names the phone of the frame to come.
        alignment: "corpus" for a path through the corpus' phones, "straight" for a diagonal through the whole clause.
    """

    family: ClassVar[str] = "tacotron"
    clause_words: list[int]
    stop_weight: float
    last_weight: float
    guide_weight: float
    guide_symbols: float
    given_share: float = 0.0
    own_past_share: float = 0.0
    phone_weight: float = 0.0
    alignment: str = "corpus"

    def __post_init__(self) -> None:
        if self.alignment not in ("corpus", "straight"):
            raise BadOption(f"[fit] alignment cannot be {self.alignment!r}", "it is corpus or straight")
        if not self.clause_words or not all(type(n) is int and 0 <= n <= 20 for n in self.clause_words):
            raise BadOption(
                f"[fit] clause_words cannot be {self.clause_words!r}",
                "it lists numbers from 1 to 20, or 0 for all",
            )
        if self.guide_symbols <= 0:
            raise BadOption("[fit] guide_symbols is not above 0", "write how far attention may stray, such as 3.0")


# The least and the most of a number of [fit], by how its name ends.
_RANGES = {
    "_share": (0.0, 1.0),
    "_weight": (0.0, 1e6),
    "_rate": (0.0, 1.0),
    "steps": (1, 10**8),
    "batch_tokens": (1, 10**7),
    "max_frames": (1, 10**6),
}

FITS: dict[str, type[FitRecipe]] = {
    one.family: one for one in (SpeakStreamFit, RichTtsFit, NgramRichTtsFit, T5Fit, S5Fit, IstFit, DsmFit, TacotronFit)
}


def read_fit(said: Any) -> FitRecipe:
    """A family's training from what a recipe says of it. Raises BadOption."""
    fit = {"family": SpeakStreamFit.family, **said} if isinstance(said, dict) else {"family": said}
    family = fit.pop("family")
    if not isinstance(family, str) or family not in FITS:
        raise BadOption(f"[fit] family {family!r:.40} cannot be trained", f"it is one of {', '.join(FITS)}")
    for name, kind in (("windows", WindowDraw), ("distill", Distillation)):
        if name in fit:
            fit[name] = strict(kind, fit[name], f"fit.{name}")
    for name, value in fit.items():
        _check_range(name, value)
    return strict(FITS[family], fit, "fit")


def _check_lengths(name: str, frames: Sequence[int]) -> None:
    """Raises BadOption unless they are the fewest and the most frames of a recording."""
    if len(frames) != 2 or not 0 < frames[0] <= frames[1]:
        raise BadOption(f"[fit] {name} are no two lengths", "write [fewest, most], such as [60, 200]")


def _check_range(name: str, value: Any) -> None:
    """Raises BadOption where a number of a training is outside of what its name allows."""
    if type(value) not in (int, float):
        return
    low, high = next((bounds for end, bounds in _RANGES.items() if name.endswith(end)), (-math.inf, math.inf))
    if not low <= value <= high:
        raise BadOption(f"[fit] {name} cannot be {value!r:.40}", f"it is from {low:,} to {high:,}")
