"""What trainings of decoder-only nets share: the next frame, a segment's end, and a training-only head of phones."""

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from studio.engine.alphabets import dmel
from studio.engine.nets.transformer import Watch
from studio.train.families.guide import GuidedHead
from studio.train.features import PHONES
from studio.train.loop.fitting import Fitter, drawn_levels


class NextFrameFitter(Fitter):
    """A net with ``decoder``, ``levels_out`` and ``eos_out``, and the head of phones, which is thrown away afterwards.

    Its batches are dataclasses of tensors; positions ``..._at`` are flat indices into [B * T]:
    ``symbols`` [B, T]; ``frame_at`` [M] and ``frame_levels`` uint8 [M, 80], what is fed; ``target_at`` [P],
    ``target_levels`` uint8 [P, 80] and ``target_phones`` [P], what is predicted; ``stop_at`` [Q], ``stop`` float32 [Q].

    Args:
        net: of ``width``.
        phone_weight, eos_weight: of these losses beside the frames'.
        guide_weight: of the head of attention that ``guided_head`` watches; 0 guides none.
    """

    beginnings = ("decoder.blocks.",)

    def __init__(self, net: Any, phone_weight: float, eos_weight: float, guide_weight: float = 0.0) -> None:
        super().__init__()
        self.net = net
        self._weights = {"phone": phone_weight, "stop": eos_weight}
        if guide_weight:
            self._weights["guide"] = guide_weight
        self.phone_out = nn.Linear(net.config.width, len(PHONES))

    @abstractmethod
    def hidden(self, batch: Any, watch: Watch | None = None) -> Tensor:
        """What the decoder makes of a batch: [B * T, width]; ``watch`` as of ``Decoder``."""

    def guided_head(self, batch: Any) -> GuidedHead | None:
        """One head of attention, with where it should look in a batch; None where a family knows of no such place."""
        return None

    def forward(self, batch: Any) -> dict[str, Tensor]:
        """Losses: ``frame`` in nats per channel, ``stop``, ``phone``, ``guide`` where guided; and ``phone_hits``."""
        head = self.guided_head(batch) if "guide" in self._weights else None
        losses = self.losses(batch, self.hidden(batch, head))
        return losses if head is None else losses | {"guide": head.lost}

    def losses(self, batch: Any, hidden: Tensor) -> dict[str, Tensor]:
        """The same of what the decoder made of the batch, [B * T, width]."""
        here = hidden[batch.target_at]
        levels = self.net.levels_out(here).float().view(-1, dmel.LEVELS)
        phones = self.phone_out(here).float()
        stops = self.net.eos_out(hidden[batch.stop_at]).squeeze(-1).float()
        return {
            "frame": F.cross_entropy(levels, batch.target_levels.flatten().long()),
            "stop": F.binary_cross_entropy_with_logits(stops, batch.stop),
            "phone": F.cross_entropy(phones, batch.target_phones),
            "phone_hits": (phones.argmax(-1) == batch.target_phones).float().mean(),
        }

    def total(self, losses: dict[str, Tensor]) -> Tensor:
        """What is minimised."""
        return losses["frame"] + sum(weight * losses[name] for name, weight in self._weights.items())

    def matrices(self) -> list[nn.Parameter]:
        """The decoder's matrices."""
        return [p for p in self.net.decoder.parameters() if p.ndim == 2]

    @torch.no_grad()
    def own_frames(self, batch: Any, share: float, temperature: float) -> Any:
        """The batch with a share of the frames fed back drawn by the net itself (Bengio et al. 2015, in parallel).

        Each draw sees the true past, as in the first of Duckworth et al.'s passes (2019); one pass brings most of
        what makes a net walk on its own output and costs a third of a step (docs/adr/0006).
        """
        here = self.hidden(batch)[batch.target_at]
        drawn = drawn_levels(self.net.levels_out(here).view(-1, dmel.CHANNELS, dmel.LEVELS), temperature)
        row = torch.full((batch.symbols.numel() + 1,), -1, device=drawn.device)
        row[batch.frame_at] = torch.arange(len(batch.frame_at), device=drawn.device)
        fed = row[batch.target_at + 1]  # a frame is fed at the position after the one that predicts it
        chosen = (fed >= 0) & (torch.rand(len(fed), device=fed.device) < share)
        levels = batch.frame_levels.clone()
        levels[fed[chosen]] = drawn[chosen]
        return replace(batch, frame_levels=levels)
