"""Layers of trained transformers on a CPU: norms, attention to a window or to fixed tokens, gates, large products.

A row's result does not depend on its batch (law 3).
"""

import numpy as np
from torch import nn

from studio.engine.nets.cpu import kernels
from studio.engine.nets.cpu.jit import cached_njit
from studio.engine.nets.cpu.kernels import PanelLinear
from studio.engine.nets.cpu.threads import run_in_halves
from studio.engine.nets.cpu.tiles import PANEL


class CpuLayerNorm:
    """A trained ``LayerNorm``."""

    def __init__(self, norm: nn.LayerNorm) -> None:
        self.eps = np.float32(norm.eps)
        self.gain, self.shift = norm.weight.detach().float().numpy().copy(), norm.bias.detach().float().numpy().copy()

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Normalise [..., D]."""
        rows = x.reshape(-1, x.shape[-1])
        out = np.empty_like(rows)
        kernels.layer_norm(rows, self.eps, self.gain, self.shift, out)
        return out.reshape(x.shape)


def product_in_halves(layer: PanelLinear, x: np.ndarray) -> np.ndarray:
    """``layer(x)``; a large product runs on two threads, each of which reads half of the weights."""
    rows = np.ascontiguousarray(x.reshape(-1, x.shape[-1]))
    out = np.empty((len(rows), len(layer.bias)), np.float32)

    def run(first: int, last: int) -> None:
        part = slice(first * PANEL, last * PANEL)
        out[:, part] = kernels.linear(rows, layer.gain, layer.panels[first:last], layer.bias[part])

    run_in_halves(len(layer.panels), len(rows) * layer.depth * PANEL, run)
    return out.reshape(*x.shape[:-1], -1)


@cached_njit
def gated(wide, out):
    """SiLU of the first half of [N, 2 F] times the second one, into [N, F]."""
    width = out.shape[1]
    for row in range(len(wide)):
        for i in range(width):
            gate = wide[row, i]
            out[row, i] = gate / (np.float32(1) + np.exp(-gate)) * wide[row, width + i]


@cached_njit
def _attend(q, keys, values, held, scores, out):
    """Attention of a query [d] to the first ``held`` of tokens [S, d], into [d]."""
    best = np.float32(-np.inf)
    for s in range(held):
        score = np.float32(0)
        for i in range(len(q)):
            score += q[i] * keys[s, i]
        scores[s] = score
        best = max(best, score)
    total = np.float32(0)
    out[:] = 0
    for s in range(held):
        share = np.exp(scores[s] - best)
        total += share
        for i in range(len(q)):
            out[i] += share * values[s, i]
    for i in range(len(q)):
        out[i] /= total


@cached_njit
def attend_window(qkv, keys, values, slots, tokens, rotations, out):
    """Attention of new tokens, one after another, to the last ones, themselves included, which rings hold afterwards.

    Args:
        qkv: float32 [B, T, 3 D], with queries scaled; channel pairs of queries and keys are rotated in place.
        keys, values: rings [slots, H, S, d]; the token p is at p modulo S.
        slots: int64 [B]; ``tokens`` int64 [B], those that each slot has had.
        rotations: cosines and sines in turn, float32 [B, T, d].
        out: float32 [B, T, D].
    """
    heads, window, d = keys.shape[1:]
    width = heads * d
    scores = np.empty(window, np.float32)
    for b in range(len(qkv)):
        slot = slots[b]
        for t in range(qkv.shape[1]):
            token, rotation = qkv[b, t], rotations[b, t]
            for i in range(0, 2 * width, 2):
                real, imaginary, place = token[i], token[i + 1], i % d
                token[i] = real * rotation[place] - imaginary * rotation[place + 1]
                token[i + 1] = real * rotation[place + 1] + imaginary * rotation[place]
            at, held = (tokens[b] + t) % window, min(tokens[b] + t + 1, window)
            for head in range(heads):
                first = head * d
                ring_keys, ring_values = keys[slot, head], values[slot, head]
                for i in range(d):
                    ring_keys[at, i] = token[width + first + i]
                    ring_values[at, i] = token[2 * width + first + i]
                part = slice(first, first + d)
                _attend(token[part], ring_keys, ring_values, held, scores, out[b, t, part])


@cached_njit
def attend_fixed(q, keys, values, slots, out):
    """Attention of queries [B, T, D], scaled, to all tokens of their slots [slots, H, S, d], into [B, T, D]."""
    heads, count, d = keys.shape[1:]
    scores = np.empty(count, np.float32)
    for b in range(len(q)):
        for t in range(q.shape[1]):
            for head in range(heads):
                part = slice(head * d, head * d + d)
                _attend(q[b, t, part], keys[slots[b], head], values[slots[b], head], count, scores, out[b, t, part])
