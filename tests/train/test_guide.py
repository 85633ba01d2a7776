"""Guided attention: which token a frame speaks, what is asked of the head, and that the net is the same net."""

import numpy as np
import pytest
import torch

from studio.engine.nets.transformer import Decoder, DecoderConfig, rotary
from studio.train.guide import NOWHERE, GuidedHead, spread


def decode_guided(decoder: Decoder, x, queries, keys):
    """What is decoded, and what is lost."""
    head = GuidedHead(decoder, queries, keys)
    return decoder(x, watch=head), head.lost


def test_a_words_tokens_lie_evenly_over_its_frames():
    of_frame = np.array([0, 0, 0, 0, 1, 2, 2, 2, 3])
    assert spread(of_frame, [2, 1, 3]).tolist() == [0, 0, 1, 1, 2, 3, 4, 5, NOWHERE]
    assert spread(np.array([0, 0, 1]), [5, 1]).tolist() == [0, 2, 5], "a short word leaves tokens out"


@pytest.fixture
def decoder() -> Decoder:
    torch.manual_seed(4)
    made = Decoder(DecoderConfig(3, 32, 2, 48))
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return made


def test_what_is_decoded_does_not_change(decoder):
    x = torch.randn(2, 12, 32)
    hidden, _ = decode_guided(decoder, x, torch.tensor([5]), torch.tensor([2]))
    torch.testing.assert_close(hidden, decoder(x))


def test_the_loss_is_that_heads_attention_at_the_token(decoder):
    x = torch.randn(2, 12, 32)
    seen = []
    hook = decoder.blocks[1].norm_attention.register_forward_hook(lambda block, given, out: seen.append(given[0]))
    queries, keys = torch.tensor([5, 12 + 7, 12 + 9]), torch.tensor([2, 7, NOWHERE])
    _, lost = decode_guided(decoder, x, queries, keys)
    hook.remove()
    block, expected = decoder.blocks[1], []
    q, k, _ = block.project(seen[0], *rotary(torch.arange(12), 16, 10_000.0))
    for row, at, key in ((0, 5, 2), (1, 7, 7)):
        shares = (k[row, 0, : at + 1] @ q[row, 0, at] / 4.0).softmax(0)
        expected.append(-shares[key].log())
    torch.testing.assert_close(lost, torch.stack(expected).mean())


def test_where_nothing_is_asked_nothing_is_lost(decoder):
    _, lost = decode_guided(decoder, torch.randn(1, 6, 32), torch.tensor([3]), torch.tensor([NOWHERE]))
    assert lost == 0.0 and lost.isfinite()


def test_a_head_learns_where_to_look(decoder):
    torch.manual_seed(5)
    x, queries = torch.randn(4, 20, 32), torch.arange(4 * 20).view(4, 20)[:, 10:].flatten()
    keys = (queries % 20) // 2
    optim = torch.optim.Adam(decoder.parameters(), lr=0.01)
    found = []
    for _ in range(60):
        _, lost = decode_guided(decoder, x, queries, keys)
        optim.zero_grad()
        lost.backward()
        optim.step()
        found.append(float(lost.detach()))
    assert found[-1] < 0.5 < 2.0 < found[0]
