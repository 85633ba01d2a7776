"""Mimi, Kyutai's neural codec (Défossez et al. 2024): codes of 80 ms frames to samples, and back.

Frames are codes [B, T, K] instead of mels; K may be smaller than the number of codebooks. The decoder streams: codes
to latents, twice as many of them, a transformer over the last ten seconds, and SEANet. Names and shapes of all
parameters are those of Kyutai's ``tokenizer-e351c8d8-checkpoint125.safetensors``.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from studio.core.cards import Card
from studio.core.errors import BadOption
from studio.core.kyutai import PREFIX_FRAMES
from studio.engine.nets.loading import NetConfig, load_published, weights_file
from studio.engine.nets.windowed import WindowedBlock, WindowedTransformer
from studio.engine.tokenizers.mimi import SplitQuantiser
from studio.engine.vocoders.base import Vocoder, VocoderState, seed_rows
from studio.engine.vocoders.seanet import CausalConv, CausalUpsampling, seanet_decoder, seanet_encoder

_RUN_FRAMES = 64  # at once, because attention's memory grows with the square of new tokens
_CUT_FRAMES = 2  # of a recording that is a voice, at its end, as in Kyutai's code
_SILENT = 1e-3  # peak of a recording without speech, of full scale 1
# Names in files that were written by later releases of Kyutai's package.
_RENAMED = {".in_projs.0.weight": ".in_proj_weight", ".out_projs.0.weight": ".out_proj.weight"}


@dataclass(frozen=True)
class MimiConfig(NetConfig):
    """Sizes; the defaults are the published ones.

    Attributes:
        channels: codebooks, one of which is semantic; ``codebook_size`` codes of ``codebook_width`` numbers each.
        width: of latents, which SEANet turns into samples by ``ratios``, with ``filters`` channels at the last.
        window_tokens: latents that one attends to.
    """

    BOUNDS: ClassVar[Mapping[str, tuple[float, float]]] = {
        "channels": (2, 256),
        "ratios": (1, 64),
        "rotary_base": (1, 1e9),
        "heads": (1, 256),
    }
    channels: int = 32
    frame_samples: int = 1920
    sample_rate_hz: int = 24_000
    codebook_size: int = 2048
    codebook_width: int = 256
    width: int = 512
    filters: int = 64
    ratios: tuple[int, ...] = (8, 6, 5, 4)
    kernel: int = 7
    residual_kernel: int = 3
    last_kernel: int = 3
    layers: int = 8
    heads: int = 8
    feed_width: int = 2048
    window_tokens: int = 250
    rotary_base: float = 10_000.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frame_samples % math.prod(self.ratios):
            raise BadOption(f"ratios {self.ratios} do not divide {self.frame_samples} samples", "restore the file")
        if self.width % (2 * self.heads) or self.filters % 2:
            raise BadOption("heads need an even width each, and filters are even", "restore the file")

    @property
    def latents_per_frame(self) -> int:
        """Latents that SEANet takes for a frame."""
        return self.frame_samples // math.prod(self.ratios)

    def derived_numbers(self) -> int:
        """Those of the rings of K and V."""
        return 2 * self.layers * self.window_tokens * self.width


@dataclass
class MimiState(VocoderState):
    """Last inputs of the convolutions, and K and V.

    Attributes:
        upsample: the last frame's latent, [B, width, 1].
        rings: K and V of each layer in turn, [B, heads, window, head_width].
        tails: of SEANet's layers, [B, C, look-back].
    """

    upsample: Tensor = field(default_factory=lambda: torch.empty(0))
    rings: list[Tensor] = field(default_factory=list)
    tails: list[Tensor] = field(default_factory=list)


class Mimi(Vocoder[MimiState]):
    """Codes to samples, streaming, and samples to codes, at once."""

    name: ClassVar[str] = "mimi"
    takes_codes: ClassVar[bool] = True
    Config: ClassVar[type] = MimiConfig
    config: MimiConfig

    def __init__(self, config: MimiConfig) -> None:
        super().__init__()
        self.config = c = config
        self.quantizer = SplitQuantiser(c.channels, c.codebook_size, c.codebook_width, c.width)
        self.upsample = nn.ModuleDict(
            {"convtr": CausalUpsampling(c.width, c.width, c.latents_per_frame, groups=c.width, bias=False)}
        )
        self.decoder_transformer, self.encoder_transformer = (self._transformer(c) for _ in range(2))
        self.decoder, self.encoder = (
            build(
                width=c.width,
                filters=c.filters,
                ratios=c.ratios,
                kernel=c.kernel,
                residual_kernel=c.residual_kernel,
                last_kernel=c.last_kernel,
            )
            for build in (seanet_decoder, seanet_encoder)
        )
        downsampling = CausalConv(c.width, c.width, 2 * c.latents_per_frame, c.latents_per_frame, bias=False)
        self.downsample = nn.ModuleDict({"conv": downsampling})

    @classmethod
    def load(cls, card: Card, folder: Path) -> Self:
        """See ``Vocoder``; the file may be as Kyutai publishes it."""
        path = weights_file(folder, card, f"{cls.name}.safetensors")
        return cast(Self, load_mimi(path, cls._read_config(card.vocoders[cls.name])))

    @property
    def upsampling(self) -> CausalUpsampling:
        """From frames to latents of SEANet."""
        return cast(CausalUpsampling, self.upsample["convtr"])

    def init_state(self, rows: int, device: torch.device | str = "cpu", seed: int | Tensor = 0) -> MimiState:
        """Nothing before the first frame; there is no noise, so the seed has no effect."""
        return MimiState(
            position=torch.zeros(rows, dtype=torch.int64, device=device),
            seed=seed_rows(seed, rows, device),
            upsample=torch.zeros(rows, self.config.width, 1, device=device),
            rings=self.transformer.init_rings(rows, device),
            tails=self.decoder.init_tails(rows, device),
        )

    def step(self, frames: Tensor, state: MimiState) -> tuple[Tensor, MimiState]:
        """The samples of codes and the state after them.

        Args:
            frames: int64 or int32 [B, T, K], of the first K codebooks.

        Raises:
            IndexError: on a CPU, a code is no code of its codebook. (A GPU would have to be waited for.)
        """
        parts = list[Tensor]()
        for part in frames.long().split(_RUN_FRAMES, dim=1):
            pcm, state = self._run(part, state)
            parts.append(pcm)
        return torch.cat(parts, 1), state

    def _run(self, codes: Tensor, state: MimiState) -> tuple[Tensor, MimiState]:
        latents = self.quantizer.decode(codes).transpose(1, 2)
        x, upsample = self.upsampling(latents, state.upsample)
        token = state.position // (self.config.frame_samples // self.config.latents_per_frame)
        x, rings = self.transformer(x.transpose(1, 2), state.rings, token)
        pcm, tails = self.decoder(x.transpose(1, 2), state.tails)
        position = state.position + codes.shape[1] * self.config.frame_samples
        return pcm[:, 0].clamp(-1, 1), MimiState(position, state.seed, upsample, rings, tails)

    def encode(self, pcm: Tensor, codebooks: int | None = None) -> Tensor:
        """Codes int64 [B, T, codebooks] of whole recordings [B, T * frame_samples], of all codebooks by default.

        A last partial frame is filled up with zeros.
        """
        c = self.config
        pcm = nn.functional.pad(pcm, (0, -pcm.shape[1] % c.frame_samples))
        x, _ = self.encoder(pcm[:, None], self.encoder.init_tails(len(pcm), pcm.device))
        transformer = cast(WindowedTransformer, self.encoder_transformer["transformer"])
        rings = transformer.init_rings(len(pcm), pcm.device)
        first_token = torch.zeros(len(pcm), dtype=torch.int64, device=pcm.device)
        x, _ = transformer(x.transpose(1, 2), rings, first_token)
        tail = x[:, :1].expand(-1, c.latents_per_frame, -1)  # the only layer that does not begin with zeros
        latents, _ = self.downsample["conv"](x.transpose(1, 2), tail.transpose(1, 2))
        return self.quantizer.encode(latents.transpose(1, 2), codebooks or c.channels)

    @property
    def transformer(self) -> WindowedTransformer:
        """The decoder's."""
        return cast(WindowedTransformer, self.decoder_transformer["transformer"])

    @staticmethod
    def _transformer(c: MimiConfig) -> nn.ModuleDict:
        blocks = (WindowedBlock(c.width, c.heads, c.feed_width) for _ in range(c.layers))
        sizes = {"heads": c.heads, "head_width": c.width // c.heads, "window": c.window_tokens}
        return nn.ModuleDict({"transformer": WindowedTransformer(blocks, **sizes, rotary_base=c.rotary_base)})


@torch.inference_mode()
def encode_prefix(net: Mimi, recording: np.ndarray, codebooks: int) -> np.ndarray:
    """A recording as the voice of a model that continues it (``kyutai/tts-0.75b-en-public``).

    Args:
        recording: float32 [T] at 24 kHz, full scale 1; 3 to 10 seconds of one speaker are best.
        codebooks: that the model has.

    Returns:
        Codes int64 [frames, codebooks].

    Raises:
        BadOption: it is silent, holds samples that are not finite, or lasts less than about 1 or more than 20 seconds.
    """
    low, high = ((count + _CUT_FRAMES) * net.config.frame_samples for count in PREFIX_FRAMES)
    if recording.ndim != 1 or not low <= len(recording) <= high:
        length_s, low_s, high_s = (count / net.config.sample_rate_hz for count in (recording.size, low, high))
        allowed = f"give {low_s:.1f} to {high_s:.0f} s of one speaker; 3 to 10 are best"
        raise BadOption(f"the recording of a voice lasts {length_s:.1f} s", allowed)
    if not np.isfinite(recording).all() or float(np.abs(recording).max()) < _SILENT:
        raise BadOption("the recording of a voice is silent or damaged", "record it again, closer to the microphone")
    samples = torch.from_numpy(np.ascontiguousarray(recording, np.float32))[None]
    codes = net.encode(samples.to(net.upsampling.inner.weight.device), codebooks)
    return codes[0, :-_CUT_FRAMES].cpu().numpy()


def load_mimi(path: Path, config: MimiConfig | None = None) -> Mimi:
    """A trained Mimi in float32, from a file in Kyutai's format.

    Raises:
        BadVoice: the file is missing or does not hold exactly these parameters.
    """
    with torch.device("meta"):
        net = Mimi(config or MimiConfig())
    load_published(net, path, _RENAMED)
    return net.eval().requires_grad_(False)
