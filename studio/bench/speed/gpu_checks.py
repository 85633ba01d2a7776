"""Checks of the CUDA form on a device: against the reference in float32, repeatability, graphs against eager."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from studio.engine.families.dsm.model import Dsm, DsmConfig
from studio.engine.families.ist.model import Ist, IstConfig
from studio.engine.families.s5.model import S5, S5Config
from studio.engine.families.speakstream.model import SpeakStream, SpeakStreamConfig
from studio.engine.families.speakstream.policy import SegmentInput, SegmentPrefill
from studio.engine.families.speakstream.runner import SpeakStreamFamily
from studio.engine.nets.cuda.decoder import CudaDecoder, TokenIndex, compute_dtype
from studio.engine.nets.cuda.graphs import GraphCache
from studio.engine.nets.kv_cache import KVCache
from studio.engine.nets.transformer import CrossAttention, Decoder
from studio.engine.tokenizers import dmel
from studio.engine.vocoders.cuda import CudaVocStream
from studio.engine.vocoders.vocstream import NARROW, VocStream, VocStreamConfig

LIMIT = 1e-2  # relative error in bfloat16 (law 3)
_ROWS, _PREFILL, _DECODED, _ENCODED = 3, 24, 6, 20


def all_checks(device: torch.device) -> list[dict[str, Any]]:
    """Every check: what, error, limit, passed."""
    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = False  # the reference computes in float32
    checks = [
        _check(f"{name}: hidden states against float32", LIMIT, decoder_error(decoder, crossings))
        for name, decoder, crossings in _decoders(device)
    ]
    for name, config in (("VocStream", VocStreamConfig()), ("narrow VocStream", NARROW)):
        checks.append(_check(f"{name}: samples against float32", 2 * LIMIT, vocoder_error(config, device)))
    first, again, eager = (_spoken(device, graphs=graphs) for graphs in (True, True, False))
    checks.append(_check("same seed, same frames", 0.0, float((first != again).mean())))
    checks.append(_check("graphs as without", 0.0, float((first != eager).mean())))
    return checks


def _check(what: str, limit: float, error: float) -> dict[str, Any]:
    return {"what": what, "error": error, "limit": limit, "passed": bool(error <= limit)}


def randomise(net: nn.Module) -> None:
    """Random weights that preserve the scale of their input, and gains that are not all 1."""
    for parameter in net.parameters():
        if parameter.ndim == 1:
            parameter.data.uniform_(0.7, 1.3)
        else:
            parameter.data.normal_(std=(parameter.numel() / len(parameter)) ** -0.5)
    net.eval().requires_grad_(False)


def _decoders(device: torch.device) -> list[tuple[str, Decoder, Sequence[CrossAttention]]]:
    """A decoder of each family, of its small size."""
    with torch.device(device):
        nets: list[tuple[str, Any]] = [
            ("SpeakStream", SpeakStream(SpeakStreamConfig.named("tiny"))),
            ("IST-LM", Ist(IstConfig.named("tiny", 2))),
            ("S5-TTS", S5(S5Config.named("tiny", 2))),
            ("DSM-TTS", Dsm(DsmConfig.named("tiny", 2))),
        ]
    for _, net in nets:
        randomise(net)
    decoders = [(name, net.decoder, getattr(net, "crossings", list)()) for name, net in nets]
    return [*decoders, ("DSM-TTS, depth", nets[-1][1].depth.stack(0), [])]


def decoder_error(
    decoder: Decoder, crossings: Sequence[CrossAttention] = (), dtype: torch.dtype | None = None
) -> float:
    """Relative error of the hidden states of rows that join at different steps, in mixed and decode steps."""
    c, device = decoder.config, decoder.norm.weight.device
    dtype = dtype or compute_dtype(device)
    tokens = _PREFILL + _DECODED
    x = torch.randn(_ROWS, tokens, c.width, device=device)
    encoded = torch.randn(_ROWS, _ENCODED, c.width, device=device)
    seen = torch.ones(1, tokens, _ENCODED, dtype=torch.bool, device=device)
    cache = KVCache(c.layers, _ROWS + 1, c.heads, tokens, c.head_width, device=device, dtype=dtype)
    text = KVCache(c.layers, _ROWS + 1, c.heads, _ENCODED, c.head_width, device=device, dtype=dtype)
    for row in range(_ROWS if crossings else 0):
        for layer, cross in enumerate(crossings):
            keys, values = cross.keys_values(encoded[row : row + 1])
            text.write(layer, row, 0, keys[0], values[0])
    runner, worst = CudaDecoder(decoder, 128, dtype, crossings), 0.0
    expected = [_reference(decoder, crossings, x[row], encoded[row : row + 1], seen) for row in range(_ROWS)]
    lengths, numbers = [0] * _ROWS, torch.zeros(4, 128, dtype=torch.int32, device=device)
    while min(lengths) < tokens:
        work = [(row, _PREFILL if not at else 1) for row, at in enumerate(lengths) if at < tokens]
        work = work[: 1 + sum(at > 0 for at in lengths)]  # another row joins in every step
        at = [(row, lengths[row] + t) for row, count in work for t in range(count)]
        for n, (row, position) in enumerate(at):
            numbers[:, n] = torch.tensor([row, position, 0, _ENCODED])
            runner.x[n] = x[row, position]
        mixed = any(count > 1 for _, count in work)
        runner.run(len(at), TokenIndex(*numbers), cache, mixed=mixed, encoded=text)
        runner.normalise(len(at))
        reference = torch.stack([expected[row][position] for row, position in at])
        hidden = runner.hidden[: len(at)].float()
        worst = max(worst, float((hidden - reference).norm() / reference.norm()))
        for row, count in work:
            lengths[row] += count
    return worst


def _reference(
    decoder: Decoder, crossings: Sequence[CrossAttention], x: Tensor, encoded: Tensor, seen: Tensor
) -> Tensor:
    """Hidden states of a whole row [T, D], divided by their length."""

    def between(layer: int, h: Tensor) -> Tensor:
        return crossings[layer](h, encoded, seen)[0]

    hidden = decoder(x.unsqueeze(0), between if crossings else None)[0] / decoder.norm.weight
    return hidden / hidden.norm(dim=-1, keepdim=True)


def vocoder_error(config: VocStreamConfig, device: torch.device, dtype: torch.dtype | None = None) -> float:
    """Relative error of the samples of some frames of two rows, given one at a time."""
    with torch.device(device):
        vocoder = VocStream(config)
    randomise(vocoder)
    runner = CudaVocStream(vocoder, dtype)
    rings, state = runner.init_rings(3), vocoder.init_state(2, device)
    rings.seed.zero_()
    slots, worst = torch.tensor([0, 1], device=device), 0.0
    for _ in range(4):
        mels = torch.randn(2, 1, config.channels, device=device) - 2.0
        reference, state = vocoder.step(mels, state)
        samples = runner.step(mels, rings, slots)
        worst = max(worst, float((samples.float() - reference).norm() / reference.norm()))
    return worst


def _spoken(device: torch.device, *, graphs: bool, frames: int = 24) -> np.ndarray:
    """Frames of five rows with random weights, uint8 [frames, 5, 80]."""
    torch.manual_seed(1)
    with torch.device(device):
        net = SpeakStream(SpeakStreamConfig.named("tiny"))
    randomise(net)
    family = SpeakStreamFamily(net, 5, device, form="cuda", capacity_tokens=256)
    module: Any = family.modules["decode"]
    module.step.graphs = GraphCache(device, graphs=graphs)
    rows = [(slot,) for slot in range(5)]
    prefills = [
        SegmentPrefill(0, 0, [SegmentInput(False, [5, 6 + slot], (0, 1, 2), family.prompt(0)[:4])], 0, 0.7, slot, 0)
        for slot in range(5)
    ]
    steps = [module.run(family.slots, rows, prefills)]
    steps += [module.run(family.slots, rows, [None] * 5) for _ in range(frames - 1)]
    return np.stack([np.concatenate([one.levels for one in step]) for step in steps]).reshape(frames, 5, dmel.CHANNELS)
