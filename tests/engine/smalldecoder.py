"""A small decoder with random weights, and memory for its rows."""

import torch

from studio.engine.nets.kv_cache import KVCache
from studio.engine.nets.transformer import Decoder, DecoderConfig

ROWS = 5
SIZES = DecoderConfig(layers=3, width=64, heads=4, hidden=96)


def a_decoder() -> Decoder:
    """One whose gains are not all 1; the same each time."""
    torch.manual_seed(5)
    made = Decoder(SIZES).eval().requires_grad_(False)
    for parameter in made.parameters():
        parameter.uniform_(0.5, 1.5) if parameter.ndim == 1 else parameter.normal_(std=0.1)
    return made


def memory(capacity: int = 64) -> KVCache:
    """Slots of ROWS rows, full of NaN."""
    return KVCache(SIZES.layers, ROWS, SIZES.heads, capacity, SIZES.head_width, poison=True)
