"""Fit IST-LM: next-frame cross-entropy on interleaved sequences (paper 003, section 3, equation 2), restartable.

Only losses of speech are computed. Beside them a training-only head names the next frame's phone, as for SpeakStream
(docs/adr/0004).
"""

import copy
import json
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from safetensors.torch import save_file
from torch import Tensor, nn

from studio.core.errors import BadFile
from studio.engine import dmel
from studio.engine.families.ist.bpe import FILE as BPE_FILE
from studio.engine.families.ist.bpe import Bpe
from studio.engine.families.ist.family import WEIGHTS
from studio.engine.families.ist.net import Config, Ist
from studio.train.features import PHONES
from studio.train.ist.batches import Batch, SpokenText, training_batches, validation_batches
from studio.train.recipe import IstRecipe, Recipe

CHECKED_RATIOS = ("1:3", "3:9", "12:24", "whole")
_SAVE_EVERY_S = 180.0
_CHECK_EVERY_S = 420.0


class Fitter(nn.Module):
    """The net and its training-only phone head."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.net = Ist(config)
        self.phone_out = nn.Linear(config.width, len(PHONES))

    def hidden(self, batch: Batch) -> Tensor:
        """What the decoder makes of a batch: [B * T, D]."""
        net = self.net
        rows, length = batch.symbols.shape
        places = batch.places.flatten()
        x = net.embed_symbols(batch.symbols.flatten(), places)
        frames = net.embed_frames(batch.frame_levels, places[batch.frame_at])
        x = x.index_copy(0, batch.frame_at, frames.to(x.dtype))
        x = x.index_add(0, batch.start_at, net.ratio(batch.start_ratio).to(x.dtype))
        return net.decoder(x.view(rows, length, -1)).flatten(0, 1)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Losses of a batch: ``frame`` in nats per channel, ``stop``, ``phone``; and ``phone_hits``."""
        net = self.net
        hidden = self.hidden(batch)
        here = hidden[batch.target_at]
        levels = net.levels_out(here).float().view(-1, dmel.LEVELS)
        phones = self.phone_out(here).float()
        stops = net.eos_out(hidden[batch.stop_at]).squeeze(-1).float()
        return {
            "frame": F.cross_entropy(levels, batch.target_levels.flatten().long()),
            "stop": F.binary_cross_entropy_with_logits(stops, batch.stop),
            "phone": F.cross_entropy(phones, batch.target_phones),
            "phone_hits": (phones.argmax(-1) == batch.target_phones).float().mean(),
        }

    @torch.no_grad()
    def own_frames(self, batch: Batch, share: float, temperature: float) -> Batch:
        """The batch with a share of the frames fed back drawn by the net itself (docs/adr/0006)."""
        here = self.hidden(batch)[batch.target_at]
        shares = (self.net.levels_out(here).float().view(-1, dmel.CHANNELS, dmel.LEVELS) / temperature).softmax(-1)
        noise = torch.rand(*shares.shape[:2], 1, device=shares.device)
        drawn = (shares.cumsum(-1) < noise).sum(-1).clamp(max=dmel.LEVELS - 1).to(torch.uint8)
        row = torch.full((batch.symbols.numel() + 1,), -1, device=drawn.device)
        row[batch.frame_at] = torch.arange(len(batch.frame_at), device=drawn.device)
        fed = row[batch.target_at + 1]  # a frame is fed at the position after the one that predicts it
        chosen = torch.rand(len(fed), device=fed.device) < share
        levels = batch.frame_levels.clone()
        levels[fed[chosen]] = drawn[chosen]
        return replace(batch, frame_levels=levels)


@dataclass
class Progressed:
    """Where a run is: steps done, the pass and how many of its batches are done."""

    step: int = 0
    number: int = 0
    batch: int = 0


def rate_at(done: float, recipe: IstRecipe) -> float:
    """Share of the peak rate at a share of all steps: warm-up, flat, linear fall."""
    if done < recipe.warmup_share:
        return max(done / recipe.warmup_share, 0.02)
    return min(1.0, max(0.0, (1.0 - done) / recipe.decay_share))


class HalfCopy:
    """A bfloat16 copy of a net that does the arithmetic while float32 masters do the learning."""

    def __init__(self, master: Fitter) -> None:
        self.master = master
        self.half = copy.deepcopy(master).bfloat16()
        self._pairs = list(zip(master.parameters(), self.half.parameters(), strict=True))

    def losses(self, batch: Batch, own_share: float, temperature: float) -> dict[str, Tensor]:
        """Losses of a batch by the master's present weights, a share of whose frames the net drew itself."""
        with torch.no_grad():
            for master, half in self._pairs:
                half.copy_(master)
                half.grad = None
        if own_share:
            batch = self.half.own_frames(batch, own_share, temperature)
        return self.half(batch)

    def hand_over_gradients(self) -> None:
        """Give the master what a backward pass left."""
        for master, half in self._pairs:
            master.grad = None if half.grad is None else half.grad.float()


def optimisers(fitter: Fitter, peak_rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the decoder's matrices, AdamW for tables, heads and norms."""
    matrices = [p for p in fitter.net.decoder.parameters() if p.ndim == 2]
    chosen = {id(p) for p in matrices}
    others = [p for p in fitter.parameters() if id(p) not in chosen]
    return [
        torch.optim.Muon(matrices, lr=peak_rate, weight_decay=0.02, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=peak_rate, betas=(0.9, 0.98), weight_decay=0.01),
    ]


def set_prompts(net: Ist, text: SpokenText, recipe: IstRecipe) -> None:
    """Give the net a prompt of each speaker."""
    for i, sentence in enumerate(text.prompts(*recipe.prompt_frames)):
        tokens = [token for word in sentence.words for token in text.bpe.encode(word)]
        net.set_prompt(i, tokens, torch.from_numpy(sentence.levels))


def fit(recipe: Recipe, features: Path, state: Path, device: torch.device, threads: int | None = None) -> Path:
    """Train until the recipe's steps are done, from wherever ``state`` says; answers the weights' path.

    ``state`` holds the encoding. Metrics go to ``state/metrics.jsonl`` (one line a few steps, one a validation).
    """
    assert recipe.ist is not None
    if threads:
        torch.set_num_threads(threads)
    torch.manual_seed(recipe.seed)
    if not (state / BPE_FILE).is_file():
        raise BadFile(f"there is no {state / BPE_FILE}", "make it with `studio train bpe --out` there")
    bpe = Bpe.read(state / BPE_FILE)
    text = SpokenText(features, recipe.corpus.speakers, recipe.corpus.validation_shards, bpe)
    fitter = Fitter(Config(**recipe.ist.config)).to(device)
    optims = optimisers(fitter, recipe.ist.peak_rate)
    at = _resume(state, fitter, optims, device)
    set_prompts(fitter.net, text, recipe.ist)
    steps = recipe.ist.steps
    copied = HalfCopy(fitter)
    saved = checked = time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress, (state / "metrics.jsonl").open("a", encoding="utf-8", buffering=1) as log:
        bar = progress.add_task(f"fitting {text.hours:.1f} h", total=steps, completed=at.step)
        while at.step < steps:
            for i, batch in enumerate(training_batches(text, recipe.ist, recipe.seed, at.number)):
                if i < at.batch:
                    continue
                losses = train_step(copied, optims, batch.to(device), recipe, at.step)
                at.step, at.batch = at.step + 1, i + 1
                progress.update(bar, completed=at.step, description=f"frame {losses['frame']:.3f}")
                if at.step % 10 == 0:
                    log.write(json.dumps({"step": at.step, "hours": text.hours, **losses}) + "\n")
                now = time.monotonic()
                if now - checked > _CHECK_EVERY_S or at.step == steps:
                    checked = now
                    found = {name: validate(fitter, text, recipe.ist, name, device) for name in CHECKED_RATIOS}
                    log.write(json.dumps({"step": at.step, "validation": found}) + "\n")
                if now - saved > _SAVE_EVERY_S or at.step == steps:
                    saved = now
                    _save(state, fitter, optims, at)
                if at.step >= steps:
                    break
            else:
                at.number, at.batch = at.number + 1, 0
    return state / WEIGHTS


def train_step(
    copied: HalfCopy, optims: Iterable[torch.optim.Optimizer], batch: Batch, recipe: Recipe, step: int
) -> dict[str, float]:
    """One step; answers the losses."""
    chosen = recipe.ist
    assert chosen is not None
    losses = copied.losses(batch, chosen.own_share * (step % 2), recipe.temperature)
    total = losses["frame"] + chosen.eos_weight * losses["stop"] + chosen.phone_weight * losses["phone"]
    total.backward()
    copied.hand_over_gradients()
    nn.utils.clip_grad_norm_(copied.master.parameters(), 1.0)
    for optim in optims:
        for group in optim.param_groups:
            group["lr"] = chosen.peak_rate * rate_at(step / chosen.steps, chosen)
        optim.step()
    return {k: round(float(v.detach()), 4) for k, v in losses.items()}


@torch.no_grad()
def validate(fitter: Fitter, text: SpokenText, recipe: IstRecipe, ratio: str, device: torch.device) -> dict[str, float]:
    """Losses on unseen sentences by one ratio."""
    sums: dict[str, float] = {}
    count = 0
    for batch in validation_batches(text, recipe, ratio):
        weight = len(batch.target_at)
        count += weight
        for k, v in fitter(batch.to(device)).items():
            sums[k] = sums.get(k, 0.0) + float(v) * weight
    return {k: round(v / max(count, 1), 4) for k, v in sums.items()}


def _save(state: Path, fitter: Fitter, optims: list[torch.optim.Optimizer], at: Progressed) -> None:
    part = state / ".checkpoint.part"
    torch.save({"fitter": fitter.state_dict(), "optims": [o.state_dict() for o in optims], "at": vars(at)}, part)
    part.rename(state / "checkpoint.pt")
    weights = {k: v.detach().cpu().contiguous() for k, v in fitter.net.state_dict().items()}
    part = state / ".weights.part"
    save_file(weights, part)
    part.rename(state / WEIGHTS)


def _resume(state: Path, fitter: Fitter, optims: list[torch.optim.Optimizer], device: torch.device) -> Progressed:
    path = state / "checkpoint.pt"
    if not path.is_file():
        return Progressed()
    saved = torch.load(path, map_location=device, weights_only=True)
    fitter.load_state_dict(saved["fitter"])
    for optim, values in zip(optims, saved["optims"], strict=True):
        optim.load_state_dict(values)
    assert math.isfinite(sum(float(p.detach().sum()) for p in fitter.parameters())), "a saved state is finite"
    return Progressed(**saved["at"])
