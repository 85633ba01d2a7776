"""Quantiser of Mimi: codes of frames to latents, and back (Défossez et al. 2024; the codec of paper 002).

A frame is 80 ms: one semantic code and up to 31 acoustic codes, of 2048 each. Modules are named as in Kyutai's files.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_LEAST_USAGE = 1e-5  # as in training, for codes that were never used


class Codebook(nn.Module):
    """Centroids, stored as the moving averages from which training computes them."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self._initialized: Tensor
        self.cluster_usage: Tensor
        self.embedding_sum: Tensor
        self.register_buffer("_initialized", torch.ones(1))
        self.register_buffer("cluster_usage", torch.ones(size))
        self.register_buffer("embedding_sum", torch.zeros(size, width))

    def centroids(self) -> Tensor:
        """[size, width]."""
        return self.embedding_sum / self.cluster_usage.clamp(min=_LEAST_USAGE)[:, None]

    def forward(self, codes: Tensor) -> Tensor:
        """Centroids [..., width] of codes int64 [...]. Raises IndexError: on a CPU, a code is out of range."""
        return F.embedding(codes, self.embedding_sum) / self.cluster_usage[codes].clamp(min=_LEAST_USAGE)[..., None]


class ResidualQuantiser(nn.Module):
    """A chain of codebooks, each of which quantises what the earlier ones leave, between two projections."""

    def __init__(self, codebooks: int, size: int, width: int, outer_width: int) -> None:
        super().__init__()
        self.input_proj = nn.Conv1d(outer_width, width, 1, bias=False)
        self.output_proj = nn.Conv1d(width, outer_width, 1, bias=False)
        layers = (nn.ModuleDict({"_codebook": Codebook(size, width)}) for _ in range(codebooks))
        self.vq = nn.ModuleDict({"layers": nn.ModuleList(layers)})

    def codebooks(self) -> list[Codebook]:
        """In the order of the codes."""
        return [one for one in self.vq.modules() if isinstance(one, Codebook)]

    def decode(self, codes: Tensor) -> Tensor:
        """Latents [B, T, outer_width] of codes int64 [B, T, K], of the first K codebooks."""
        books = zip(self.codebooks(), codes.unbind(-1), strict=False)
        sums = torch.stack([book(chosen) for book, chosen in books]).sum(0)
        return F.linear(sums, self.output_proj.weight[:, :, 0])

    def encode(self, latents: Tensor, codebooks: int) -> Tensor:
        """Codes int64 [B, T, codebooks] of latents [B, T, outer_width]."""
        rest, codes = F.linear(latents, self.input_proj.weight[:, :, 0]), []
        for book in self.codebooks()[:codebooks]:
            codes.append(torch.cdist(rest, book.centroids().expand(len(rest), -1, -1)).argmin(-1))
            rest = rest - book(codes[-1])
        return torch.stack(codes, dim=-1)


class SplitQuantiser(nn.Module):
    """The residual quantiser of the semantic codebook and that of the acoustic ones, whose latents are added.

    Args:
        codebooks: the semantic one and the acoustic ones, at least 2.
        size: codes of a codebook; ``width`` of a centroid; ``outer_width`` of a latent.
    """

    def __init__(self, codebooks: int, size: int, width: int, outer_width: int) -> None:
        super().__init__()
        self.rvq_first = ResidualQuantiser(1, size, width, outer_width)
        self.rvq_rest = ResidualQuantiser(codebooks - 1, size, width, outer_width)

    def decode(self, codes: Tensor) -> Tensor:
        """Latents [B, T, outer_width] of codes int64 [B, T, K], of the first K codebooks."""
        latents = self.rvq_first.decode(codes[..., :1])
        return latents if codes.shape[-1] == 1 else latents + self.rvq_rest.decode(codes[..., 1:])

    def encode(self, latents: Tensor, codebooks: int) -> Tensor:
        """Codes int64 [B, T, codebooks] of latents [B, T, outer_width]: the nearest centroids."""
        first = self.rvq_first.encode(latents, 1)
        return first if codebooks == 1 else torch.cat((first, self.rvq_rest.encode(latents, codebooks - 1)), -1)
