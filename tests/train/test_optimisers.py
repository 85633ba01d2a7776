"""Muon in float32 takes torch's steps, and goes on from its state."""

import pytest
import torch

from studio.train.fit.optimisers import Float32Muon

SETTINGS = {"lr": 0.01, "weight_decay": 0.02, "adjust_lr_fn": "match_rms_adamw"}


@pytest.mark.parametrize("shape", [(48, 16), (16, 48), (32, 32)])
def test_its_steps_are_those_of_torch_within_what_bfloat16_rounds(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    begin = torch.randn(shape)
    ours, theirs = (torch.nn.Parameter(begin.clone()) for _ in range(2))
    optims = [Float32Muon([ours], **SETTINGS), torch.optim.Muon([theirs], **SETTINGS)]
    for _ in range(6):
        gradient = torch.randn(shape)
        for weight, optim in zip((ours, theirs), optims, strict=True):
            weight.grad = gradient.clone()
            optim.step()
    moved, wanted = (ours - begin).detach(), (theirs - begin).detach()
    assert float((moved - wanted).norm() / wanted.norm()) < 0.03
    assert float(wanted.norm()) > 0.1
    optims[0].load_state_dict(optims[1].state_dict())
    assert torch.equal(optims[0].state[ours]["momentum_buffer"], optims[1].state[theirs]["momentum_buffer"])


def test_what_has_no_gradient_stays_and_a_closure_is_asked() -> None:
    moved, still = (torch.nn.Parameter(torch.eye(4)) for _ in range(2))
    optim = Float32Muon([moved, still], **SETTINGS)
    moved.grad = torch.ones(4, 4)
    assert optim.step(lambda: 0.25) == 0.25
    assert not torch.equal(moved, torch.eye(4)) and torch.equal(still, torch.eye(4))


def test_another_adjustment_of_the_rate_is_refused() -> None:
    weight = torch.nn.Parameter(torch.eye(3))
    weight.grad = torch.ones(3, 3)
    with pytest.raises(ValueError, match="match_rms_adamw"):
        Float32Muon([weight]).step()
