"""Sizes of Kyutai's language models, read from the ``config.json`` beside their weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from studio.core.checks import to_printable
from studio.core.errors import BadOption, BadVoice
from studio.engine.families.kyutai.policy import PAD
from studio.engine.families.kyutai.row import FINAL_STEPS
from studio.engine.nets.loading import NetConfig

# What this package computes; a file that asks for something else is refused.
FIXED: dict[str, Any] = {
    "causal": True,
    "layer_scale": None,
    "gating": "silu",
    "norm": "rms_norm_f32",
    "positional_embedding": "rope",
    "depformer_multi_linear": True,
    "depformer_pos_emb": "none",
    "depformer_weights_per_step": True,
}
_CONDITIONS = ("speaker_wavs", "cfg", "control")
_DO = "give the config.json of a Kyutai text-to-speech model"


@dataclass(frozen=True)
class KyutaiConfig(NetConfig):
    """Sizes under Kyutai's names; the defaults are those of ``kyutai/tts-1.6b-en_fr``.

    Attributes:
        n_q: codebooks fed, ``dep_q`` predicted, of ``card`` codes; ``delays`` of text and codebooks in steps.
        text_card: text tokens that are fed, ``text_card_out`` predicted; ``demux_second_stream`` where two are fed as
            one.
        cross_attention: to speakers, together with the other conditions; a model without it has none.
        depformer_weights_per_step_schedule: which set of weights the depth transformer has for each codebook.
        speaker_width: of a speaker's vectors.
        cfg_values, control_values: number of labels of each condition, as vectors of ``cfg_width``, ``control_width``.
    """

    BOUNDS: ClassVar[Mapping[str, tuple[float, float]]] = {
        "delays": (0, 10_000),
        "hidden_scale": (0.1, 64),
        "max_period": (1, 1e9),
        "depformer_weights_per_step_schedule": (0, 255),
        "text_card_out": (PAD + 1, 200_000),
    }
    MAX_LIST: ClassVar[int] = 257
    card: int = 2048
    n_q: int = 32
    dep_q: int = 32
    delays: tuple[int, ...] = (0, 0, *[2] * 31)
    dim: int = 2048
    text_card: int = 8000
    text_card_out: int = 8000
    num_heads: int = 16
    num_layers: int = 16
    hidden_scale: float = 4.125
    context: int = 500
    max_period: float = 10_000.0
    depformer_dim: int = 1024
    depformer_num_heads: int = 16
    depformer_num_layers: int = 4
    depformer_dim_feedforward: int = 3072
    depformer_weights_per_step_schedule: tuple[int, ...] = (*range(8), *[8] * 8, *[9] * 8, *[10] * 8)
    depformer_low_rank_embeddings: int = 128
    demux_second_stream: bool = True
    cross_attention: bool = True
    speaker_width: int = 512
    cfg_values: int = 7
    cfg_width: int = 16
    control_values: int = 1
    control_width: int = 2048

    def __post_init__(self) -> None:
        super().__post_init__()
        if max(self.delays) > FINAL_STEPS:
            raise BadOption(f"delays are longer than {FINAL_STEPS} steps", _DO)
        if len(self.delays) != self.n_q + 1 or len(self.depformer_weights_per_step_schedule) != self.dep_q:
            raise BadOption("delays or the depformer's schedule have another length than the codebooks", _DO)
        if self.dep_q > self.n_q or self.dim % (2 * self.num_heads) or self.depformer_dim % self.depformer_num_heads:
            raise BadOption("heads do not divide the width, or more codebooks are predicted than fed", _DO)

    @property
    def depth_sets(self) -> int:
        """Sets of weights of the depth transformer."""
        return max(self.depformer_weights_per_step_schedule) + 1

    @classmethod
    def read_published(cls, values: Mapping[str, Any]) -> Self:
        """From the content of a ``config.json``. Raises BadVoice: it is of another kind of model, or damaged."""
        for name, expected in FIXED.items():
            if values.get(name) != expected:
                found = to_printable(repr(values.get(name)), 80)
                raise BadVoice(f"{name} is {found}, and only {expected!r} is known", _DO)
        known = {name: value for name, value in values.items() if name in cls.__dataclass_fields__}
        try:
            if known.get("text_card_out") is None:
                known["text_card_out"] = values["text_card"]
            conditions, expected = values["conditioners"], _CONDITIONS if values["cross_attention"] else ()
            if conditions.keys() != set(expected):
                raise BadVoice(f"conditioners are others than {', '.join(expected) or 'none'}", _DO)
            if expected:
                known |= {"speaker_width": conditions["speaker_wavs"]["tensor"]["dim"]}
                for name in ("cfg", "control"):
                    table = conditions[name]["lut"]
                    known |= {f"{name}_values": table["n_bins"], f"{name}_width": table["dim"]}
            return cls.read(known | {"max_period": float(values["max_period"])})
        except (BadOption, AttributeError, KeyError, TypeError, ValueError) as error:
            raise BadVoice(f"this configuration cannot be read: {error}", _DO) from error
