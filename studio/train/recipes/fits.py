"""A recipe's ``[fit]``: the training settings of each family."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from studio.core.checks import Rule, build, check_values, list_of, one_of, rules_of, whole
from studio.core.errors import BadOption
from studio.engine.families.s5.policy import LARGEST_LOOK_AHEAD
from studio.engine.families.speakstream.policy import LARGEST_WINDOW


def _is_pair(value: Any) -> bool:
    return list_of(whole(1), 2, 2).fits(value) and value[0] <= value[1]


_LENGTHS = Rule(_is_pair, "two lengths, [fewest, most], such as [60, 200]")


def _numbers_of_words(most: int) -> Rule:
    return Rule(list_of(whole(0, most), fewest=1).fits, f"a list of numbers of words from 1 to {most}, or 0 for all")


def _check_fit(fit: "FitRecipe", **rules: Rule) -> None:
    check_values(vars(fit), rules, "[fit] {} cannot be")


@dataclass(frozen=True, kw_only=True)
class FitRecipe:
    """Settings that all families' trainings share."""

    family: ClassVar[str]
    config: dict[str, Any]
    steps: int
    peak_rate: float
    warmup_share: float
    decay_share: float
    batch_tokens: int
    max_frames: int  # of joined sentences; 30 s at 40 frames a second is 1200
    join_share: float
    noise_share: float  # of input frames with bins moved by one level
    crop_share: float = 0.0  # of joined sequences that start in mid-text
    own_share: float = 0.0  # of input frames, on every second step, replaced by the net's own samples

    @property
    def uses_reference(self) -> bool:
        """Whether a speaker is given by a recording, not by a learned embedding."""
        return False


@dataclass(frozen=True)
class WindowDraw:
    """``[fit.windows]``: how SpeakStream's windows are drawn; each segment's BOS has (scheme, n, actual look-ahead)."""

    n: list[int]
    n_weights: list[float]
    look_ahead: list[int]
    look_ahead_weights: list[float]
    s2_share: float
    change_share: float  # of segments that draw a new window
    flush_share: float  # of segments with a window shrunk by a flush

    def __post_init__(self) -> None:
        _check_distribution("n", self.n, self.n_weights, 1, LARGEST_WINDOW)
        _check_distribution("look_ahead", self.look_ahead, self.look_ahead_weights, 0, LARGEST_WINDOW - 1)


@dataclass(frozen=True, kw_only=True)
class SpeakStreamFit(FitRecipe):
    family: ClassVar[str] = "speakstream"
    windows: WindowDraw
    phone_weight: float
    eos_weight: float


@dataclass(frozen=True, kw_only=True)
class RichTtsFit(FitRecipe):
    """RichTTS's training (paper 000, section IV.A): each whole text precedes its speech.

    Attributes:
        pieces: numbers of words, one of which is drawn to cut a text into pieces; 0 leaves it whole.
        guide_weight: of the loss that guides an attention head to the spoken word; 0 for none.
    """

    family: ClassVar[str] = "richtts"
    pieces: list[int] = field(default_factory=lambda: [0])
    phone_weight: float
    eos_weight: float
    guide_weight: float = 0.0

    def __post_init__(self) -> None:
        _check_fit(self, pieces=_numbers_of_words(6))


@dataclass(frozen=True, kw_only=True)
class NgramRichTtsFit(RichTtsFit):
    """n-gram RichTTS: the same net, "trained with short segments" (section IV.A)."""

    family: ClassVar[str] = "ngram-richtts"
    pieces: list[int] = field(default_factory=lambda: [1, 2, 3, 4, 5, 6])


@dataclass(frozen=True, kw_only=True)
class T5Fit(FitRecipe):
    """T5-TTS's training (paper 001) on whole sequences.

    Attributes:
        cross_weight: of the CTC loss of the cross-attention.
        stop_weight: of the stop token, which is not a codec token here.
        reference_frames: fewest and most frames of a speaker's reference, which the voice continues. If given, it
            replaces the speaker embedding, and [fit.config] has the same maximum.
    """

    family: ClassVar[str] = "t5"
    cross_weight: float
    stop_weight: float
    reference_frames: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        most = 0 if self.reference_frames is None else self.reference_frames[1]
        if most != self.config.get("reference_frames", 0):
            raise BadOption(
                f"[fit] has references of at most {most} frames and [fit.config] has another number",
                "write reference_frames = [fewest, most] into [fit], and reference_frames = most into [fit.config]",
            )
        if self.reference_frames is not None:
            _check_fit(self, reference_frames=_LENGTHS)

    @property
    def uses_reference(self) -> bool:
        return self.reference_frames is not None


@dataclass(frozen=True, kw_only=True)
class Distillation:
    """Distillation of T5-TTS into S5-TTS (paper 001, "Interleaved multi-source distillation").

    Attributes:
        hidden_weight, logit_weight: lambda_h and lambda_z.
        mini_batches: of a step, alternately of the corpus and of the teacher's speech; gradients are accumulated.
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
        look_ahead: values of k to draw from.
        aux_weight: of the CTC loss of the auxiliary attention.
        alignment: word times of the decoder mask: "mas" as in the paper, or "corpus" for the corpus' word ends.
        distill: for distilling a T5-TTS into a trained net.
    """

    family: ClassVar[str] = "s5"
    look_ahead: list[int]
    aux_weight: float
    alignment: str = "mas"
    distill: Distillation | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_fit(self, alignment=one_of(("mas", "corpus")), look_ahead=_numbers_of_words(LARGEST_LOOK_AHEAD))


@dataclass(frozen=True, kw_only=True)
class IstFit(FitRecipe):
    """IST-LM's training (paper 003, section 3)."""

    family: ClassVar[str] = "ist"
    prompt_frames: list[int]  # fewest and most frames of a prompt
    next_share: float  # of joined sentences that form sequences of their own
    flush_share: float  # of sequences that a flush cuts at a word end
    phone_weight: float
    eos_weight: float
    ratios: list[str] = field(default_factory=list)  # drawn uniformly in training; empty for all
    guide_weight: float = 0.0  # of the loss that guides an attention head to the spoken token; 0 for none
    merge_dropout: float = 0.0  # share of BPE merges to skip, so that a word's tokens vary

    def __post_init__(self) -> None:
        _check_fit(self, prompt_frames=_LENGTHS)

    @property
    def uses_reference(self) -> bool:
        return True


@dataclass(frozen=True, kw_only=True)
class DsmFit(FitRecipe):
    """DSM-TTS's training (paper 002, sections 3.3 and 4.2).

    Attributes:
        extract_frames: fewest and most frames of a speaker's reference, from elsewhere in the corpus.
        text_dropout, speaker_dropout: of sequences without text or speaker (20% in the paper).
        turn_share: of sequences with two speakers in turn.
        flush_share: of the others that end at any word end, as after a flush.
        guide_weight: of the loss that guides an attention head to the spoken token; 0 for none.
        merge_dropout: share of BPE merges to skip, so that a word's tokens vary.
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
        _check_fit(self, extract_frames=_LENGTHS)

    @property
    def uses_reference(self) -> bool:
        """A recording of each speaker is given."""
        return True


@dataclass(frozen=True, kw_only=True)
class TacotronFit(FitRecipe):
    """Incremental Tacotron 2's training (paper 004).

    Attributes:
        clause_words: maximum words of a clause, one of which is drawn for each text; 0 for the whole text.
        stop_weight, guide_weight: of the stop token's loss and the guided attention loss.
        last_weight: of a clause's last frame in the stop token's loss, where other frames count 1.
        guide_symbols: how far from the diagonal attention is not penalised: g of Tachibana et al., in symbols.
        given_share: of steps whose previous attention is the target.
        own_past_share: of clauses, on the steps of ``own_share``, decoded autoregressively from own samples.
        phone_weight: of the training-only head that predicts the phone of the next frame.
        alignment: "corpus" for the path of the corpus' phones, "straight" for a diagonal through the clause.
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
        _check_fit(self, alignment=one_of(("corpus", "straight")), clause_words=_numbers_of_words(20))
        if self.guide_symbols <= 0:
            raise BadOption("[fit] guide_symbols is not above 0", "write a distance in symbols, such as 3.0")


# Allowed range of a number in [fit], by the end of its name.
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


def read_fit(table: Any) -> FitRecipe:
    """The settings of a recipe's [fit], a table or a family's name. Raises BadOption."""
    fit = {"family": SpeakStreamFit.family, **table} if isinstance(table, dict) else {"family": table}
    family = fit.pop("family")
    if not isinstance(family, str) or family not in FITS:
        raise BadOption(f"[fit] family {family!r:.40} cannot be trained", f"it is one of {', '.join(FITS)}")
    for name, kind in (("windows", WindowDraw), ("distill", Distillation)):
        if name in fit:
            fit[name] = build(kind, fit[name], f"fit.{name}", rules_of(kind, _bounds))
    return build(FITS[family], fit, "fit", rules_of(FITS[family], _bounds))


def _bounds(name: str, hint: Any) -> tuple[float, float] | None:
    return next((bounds for end, bounds in _RANGES.items() if name.endswith(end)), None)


def _check_distribution(name: str, values: Sequence[int], weights: Sequence[float], low: int, high: int) -> None:
    """Raises BadOption unless there are values within range, each with a weight."""
    if not values or not all(low <= value <= high for value in values):
        raise BadOption(
            f"[fit.windows] {name} cannot be {values!r:.80}", f"it lists one or more numbers of words, {low} to {high}"
        )
    fits = len(weights) == len(values) and all(weight >= 0.0 for weight in weights)  # NaN is none
    if not fits or not math.isclose(sum(weights), 1.0, abs_tol=1e-8):
        raise BadOption(
            f"[fit.windows] {name}_weights cannot be {weights!r:.80}",
            f"it has a number from 0 up for each of the {len(values)} of {name}, and they add up to 1",
        )
