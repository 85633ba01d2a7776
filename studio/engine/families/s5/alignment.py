"""S5-TTS's auxiliary attention and the monotonic path through it (paper 001, "Conv-based auxiliary attention")."""

import numpy as np
import torch
from torch import Tensor, nn

_NEVER = -1e30


class AuxiliaryAttention(nn.Module):
    """Aligns frames to phonemes by the distance of two convolutional embeddings.

    Trained jointly with the decoder; at inference it aligns a reference recording once.

    Args:
        width: D, of embedded frames and phonemes.
        common: C, of the common embedding space.
        scale: delta of the softmax.
    """

    def __init__(self, width: int, common: int, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.query = _projection(width, common)
        self.key = _projection(width, common)

    def forward(self, frames: Tensor, symbols: Tensor, real: Tensor) -> Tensor:
        """log e of embedded frames [B, S, D] and phonemes [B, T, D] with padding mask bool [B, T] -> [B, S, T].

        e[s, t] = softmax over t of -delta * sum over c of (Q'[c, s] - K'[c, t])^2.
        """
        q = self.query(frames.transpose(1, 2)).float()
        k = self.key(symbols.transpose(1, 2)).float()
        distance = q.square().sum(1).unsqueeze(2) + k.square().sum(1).unsqueeze(1) - 2 * q.transpose(1, 2) @ k
        return (-self.scale * distance).masked_fill(~real.unsqueeze(1), _NEVER).log_softmax(-1)


def _projection(width: int, common: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv1d(width, common, 3, padding=1), nn.ReLU(), nn.Conv1d(common, common, 1))


def monotonic_alignment(log_shares: np.ndarray, frames: np.ndarray, symbols: np.ndarray) -> np.ndarray:
    """Monotonic alignment search: the best path through every symbol (Kim et al. 2020, algorithm 1).

    Args:
        log_shares: float [B, S, T].
        frames, symbols: int [B], valid lengths of S and T; frames >= symbols.

    Returns:
        phi: int64 [B, S], the symbol of each frame; padding frames get the last symbol.
    """
    batch, steps, _ = log_shares.shape
    score = np.full(log_shares.shape, _NEVER)
    score[:, 0, 0] = log_shares[:, 0, 0]
    for s in range(1, steps):
        came = np.pad(score[:, s - 1, :-1], ((0, 0), (1, 0)), constant_values=_NEVER)
        score[:, s] = np.maximum(score[:, s - 1], came) + log_shares[:, s]
    path = np.repeat(symbols[:, None] - 1, steps, axis=1).astype(np.int64)
    rows, at = np.arange(batch), symbols.astype(np.int64) - 1
    for s in range(steps - 1, 0, -1):
        inside = s < frames
        path[:, s] = at
        before = np.where(at > 0, score[rows, s - 1, np.maximum(at - 1, 0)], -np.inf)
        moves = inside & (at > 0) & (before >= score[rows, s - 1, at])
        at = at - moves
    path[:, 0] = at
    return path


def log_diagonal_prior(frames: int, symbols: int, width: float = 0.15) -> Tensor:
    """Diagonal prior of the alignment, log, float32 [S, T]."""
    s = (torch.arange(frames) + 0.5) / frames
    t = (torch.arange(symbols) + 0.5) / symbols
    return -0.5 * ((s[:, None] - t[None]) / width).square()
