"""One utterance of Kyutai's language model, in its reference form: committed words in, frames of Mimi's codes out.

Text and audio are on one grid of 80 ms steps. The audio of a text step comes ``delay_steps`` later, and codebooks are
delayed among themselves (``delays``). Before its turn, a codebook is fed the initial token, and then nothing.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from studio.engine.families.kyutai.model import ZERO, KyutaiLM, KyutaiState
from studio.engine.families.kyutai.policy import KyutaiPolicy

_FINAL_STEPS = 4  # after the end, as in Kyutai's code
Choose = Callable[[Tensor], Tensor]  # logits [N, C] -> tokens int64 [N]


class KyutaiStream:
    """Runs a step at a time.

    Args:
        state: of one stream, from ``KyutaiLM.begin``.
        delay_steps: of all audio behind the text.
        choose: samples text tokens and codes.
    """

    def __init__(
        self, net: KyutaiLM, state: KyutaiState, policy: KyutaiPolicy, *, delay_steps: int, choose: Choose
    ) -> None:
        c = net.config
        self._net, self._state, self._policy = net, state, policy
        self._choose, self._delay_steps = choose, delay_steps
        self._delays = torch.tensor(c.delays)
        self._initial = torch.tensor([c.text_card, *[c.card] * c.n_q])
        self._fed = self._initial  # what the last step made: text and codes, [1 + n_q]
        self._last = list[Tensor]()  # codes of the last steps, [dep_q] each, for the frame that is completed next
        self._longest = max(c.delays)
        self._step = 0

    @property
    def is_over(self) -> bool:
        """Whether the last word's audio has been made."""
        end = self._policy.end_step
        return end is not None and self._step >= end + self._delay_steps + _FINAL_STEPS

    @torch.inference_mode()
    def step(self) -> Tensor | None:
        """Run a step, for which the policy must be ready.

        Returns:
            The codes int64 [dep_q] of the frame that it completed; None while audio has not begun.
        """
        assert self._policy.can_step
        c, device = self._net.config, self._state.position.device
        tokens = torch.where(self._step <= self._delays, self._initial, self._fed).to(device)
        hidden, logits, self._state = self._net.step(tokens[None, None], self._state)
        text = self._policy.feed(int(self._choose(logits[0])))
        if self._step < self._delay_steps:
            codes = torch.full((c.dep_q,), ZERO)
        else:
            fed = torch.tensor([text], device=device)
            codes = self._net.depth(hidden[0], fed, lambda _, one: self._choose(one))[0].cpu()
            codes = torch.where(self._step < self._delays[1 : 1 + c.dep_q] + self._delay_steps, ZERO, codes)
        others = torch.full((c.n_q - c.dep_q,), ZERO)
        self._fed = torch.cat((torch.tensor([text]), codes, others))
        self._last = [*self._last, codes][-1 - self._longest :]
        self._step += 1
        if self._step <= self._longest + self._delay_steps:
            return None
        behind = self._longest - self._delays[1 : 1 + c.dep_q]  # steps since each codebook of this frame was made
        return torch.stack(self._last)[-1 - behind, torch.arange(c.dep_q)]
