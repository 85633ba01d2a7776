"""Frames that a Tacotron 2 draws from its own past while it is trained.

In use every frame follows from frames that the net drew itself. One that has only ever followed true frames strays
from them a little more with each, and has never learned the way back (Bengio et al. 2015, scheduled sampling). Here a
clause is drawn from its beginning with the attention where it should be, so that what is said when is the corpus', and
the true frames stay what is to be predicted.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from studio.engine.families.tacotron.net import Tacotron, lstm_step
from studio.train.loop.fitting import drawn_levels


@torch.no_grad()
def own_past(net: Tacotron, memory: Tensor, fed: Tensor, given: Tensor, chosen: Tensor, temperature: float) -> Tensor:
    """What is fed before each frame, uint8 [B, F, 80], where the chosen clauses go on from their own draws.

    Args:
        memory: [B, T, D], from ``encode``.
        fed: uint8 [B, F, 80], the true frame before each.
        given: [B, F, T], where each frame attends.
        chosen: bool [B].
    """
    cell = net.attention_lstm
    into = torch.cat((cell.weight_ih, cell.weight_hh), 1), cell.bias_ih + cell.bias_hh
    of_input, of_hidden, bias, other_bias = net.decoder_lstm.all_weights[0]
    out_of = torch.cat((of_input, of_hidden), 1), bias + other_bias
    memory, own = memory[chosen], fed[chosen]
    attended = torch.bmm(given[chosen].to(memory.dtype), memory)
    hidden = state = decoded = kept = memory.new_zeros(len(memory), net.config.decoder_width)
    before = torch.zeros_like(attended[:, 0])
    for frame in range(fed.shape[1] - 1):
        now = attended[:, frame]
        gates = F.linear(torch.cat((net.look_at(own[:, frame]), before, hidden), 1), *into)
        hidden, state = lstm_step(gates, state)
        decoded, kept = lstm_step(F.linear(torch.cat((hidden, now, decoded), 1), *out_of), kept)
        levels, _ = net.heads(net.head(decoded, now, own[:, frame]))
        own[:, frame + 1] = drawn_levels(levels, temperature)
        before = now
    fed = fed.clone()
    fed[chosen] = own
    return fed
