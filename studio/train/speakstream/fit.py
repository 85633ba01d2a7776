"""Fit SpeakStream: next-frame cross-entropy on interleaved sequences (paper 000, section III), restartable.

Beside the paper's loss a training-only head names the phone of the next frame: it leads a small net from
spelling to sound much sooner, and is thrown away afterwards (docs/adr/0004).
"""

import copy
import json
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from studio.core.errors import BadFile
from studio.engine import dmel
from studio.engine.families.speakstream.net import Config, SpeakStream
from studio.engine.families.speakstream.rule import Options
from studio.train.features import PHONES
from studio.train.recipe import FitRecipe, Recipe
from studio.train.speakstream.batches import Batch, SpokenText, training_batches, validation_batches

_SAVE_EVERY_S = 180.0
_CHECK_EVERY_S = 420.0


class Fitter(nn.Module):
    """The net and its training-only phone head."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.net = SpeakStream(config)
        self.phone_out = nn.Linear(config.width, len(PHONES))

    def hidden(self, batch: Batch) -> Tensor:
        """What the decoder makes of a batch: [B * T, width]."""
        net = self.net
        rows, length = batch.symbols.shape
        x = net.embed_symbols(batch.symbols, batch.speaker).flatten(0, 1)
        owner = batch.speaker
        frames = net.embed_frames(batch.frame_levels, owner[batch.frame_at // length])
        bos = net.embed_bos(batch.bos_windows, owner[batch.bos_at // length])
        x = x.index_copy(0, batch.frame_at, frames.to(x.dtype)).index_copy(0, batch.bos_at, bos.to(x.dtype))
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
        """The batch with a share of the frames fed back drawn by the net itself (Bengio et al. 2015, in parallel).

        Each draw sees the true past, as in the first of Duckworth et al.'s passes (2019); one pass brings most of
        what makes a net walk on its own output and costs a third of a step.
        """
        here = self.hidden(batch)[batch.target_at]
        shares = (self.net.levels_out(here).float().view(-1, dmel.CHANNELS, dmel.LEVELS) / temperature).softmax(-1)
        noise = torch.rand(*shares.shape[:2], 1, device=shares.device)
        drawn = (shares.cumsum(-1) < noise).sum(-1).clamp(max=dmel.LEVELS - 1).to(torch.uint8)
        row = torch.full((batch.symbols.numel() + 1,), -1, device=drawn.device)
        row[batch.frame_at] = torch.arange(len(batch.frame_at), device=drawn.device)
        fed = row[batch.target_at + 1]  # a frame is fed at the position after the one that predicts it
        chosen = (fed >= 0) & (torch.rand(len(fed), device=fed.device) < share)
        levels = batch.frame_levels.clone()
        levels[fed[chosen]] = drawn[chosen]
        return replace(batch, frame_levels=levels)


@dataclass
class Progressed:
    """Where a run is: steps done, the pass and how many of its batches are done."""

    step: int = 0
    number: int = 0
    batch: int = 0


def rate_at(done: float, recipe: FitRecipe) -> float:
    """Share of the peak rate at a share of all steps: warm-up, flat, linear fall."""
    if done < recipe.warmup_share:
        return max(done / recipe.warmup_share, 0.02)
    return min(1.0, max(0.0, (1.0 - done) / recipe.decay_share))


class HalfCopy:
    """A bfloat16 copy of a net that does the arithmetic while float32 masters do the learning.

    On a CPU this is a fifth faster than autocast, which casts every weight and activation again.
    """

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


def optimisers(fitter: Fitter, recipe: FitRecipe) -> list[torch.optim.Optimizer]:
    """Muon for the decoder's matrices, AdamW for tables, heads and norms."""
    matrices = [p for p in fitter.net.decoder.parameters() if p.ndim == 2]
    chosen = {id(p) for p in matrices}
    others = [p for p in fitter.parameters() if id(p) not in chosen]
    return [
        torch.optim.Muon(matrices, lr=recipe.peak_rate, weight_decay=0.02, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=recipe.peak_rate, betas=(0.9, 0.98), weight_decay=0.01),
    ]


def fit(
    recipe: Recipe,
    features: Path,
    state: Path,
    device: torch.device,
    threads: int | None = None,
    start: Path | None = None,
) -> Path:
    """Train until the recipe's steps are done, from wherever ``state`` says; answers the weights' path.

    ``start`` are weights to begin from instead of chance, such as a shipped voice's; layers that they lack are added
    on top, and begin as the identity. Metrics go to
    ``state/metrics.jsonl`` (one line a few steps, one a validation).
    """
    assert recipe.fit is not None
    if threads:
        torch.set_num_threads(threads)
    torch.manual_seed(recipe.seed)
    state.mkdir(parents=True, exist_ok=True)
    fitter = Fitter(Config(**recipe.fit.config)).to(device)
    optims = optimisers(fitter, recipe.fit)
    at = _resume(state, fitter, optims, device)
    if start is not None and at.step == 0:
        _begin_from(fitter.net, start)
    text = SpokenText(features, recipe.corpus.speakers, recipe.corpus.validation_shards)
    _set_silence(fitter.net, text)
    steps = recipe.fit.steps
    copied = HalfCopy(fitter)
    saved = checked = time.monotonic()
    log = (state / "metrics.jsonl").open("a", encoding="utf-8", buffering=1)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress:
        bar = progress.add_task(f"fitting {text.hours:.1f} h", total=steps, completed=at.step)
        while at.step < steps:
            for i, batch in enumerate(training_batches(text, recipe.fit, recipe.seed, at.number)):
                if i < at.batch:
                    continue
                share = rate_at(at.step / steps, recipe.fit)
                own_share = recipe.fit.own_share * (at.step % 2)
                losses = train_step(copied, optims, batch.to(device), recipe, share, own_share)
                at.step, at.batch = at.step + 1, i + 1
                progress.update(bar, completed=at.step, description=f"frame {losses['frame']:.3f}")
                if at.step % 10 == 0:
                    log.write(json.dumps({"step": at.step, "rate": share, "hours": text.hours, **losses}) + "\n")
                now = time.monotonic()
                if now - checked > _CHECK_EVERY_S or at.step == steps:
                    checked = now
                    log.write(json.dumps({"step": at.step, "validation": validate(fitter, text, device)}) + "\n")
                if now - saved > _SAVE_EVERY_S or at.step == steps:
                    saved = now
                    _save(state, fitter, optims, at)
                if at.step >= steps:
                    break
            else:
                at.number, at.batch = at.number + 1, 0
                text = SpokenText(features, recipe.corpus.speakers, recipe.corpus.validation_shards)
    log.close()
    return state / "speakstream.safetensors"


def train_step(
    copied: HalfCopy,
    optims: list[torch.optim.Optimizer],
    batch: Batch,
    recipe: Recipe,
    rate_share: float,
    own_share: float,
) -> dict[str, float]:
    """One step at a share of the peak rate; answers the losses."""
    fit = recipe.fit
    assert fit is not None
    losses = copied.losses(batch, own_share, recipe.temperature)
    total = losses["frame"] + fit.eos_weight * losses["stop"] + fit.phone_weight * losses["phone"]
    total.backward()
    copied.hand_over_gradients()
    nn.utils.clip_grad_norm_(copied.master.parameters(), 1.0)
    for optim in optims:
        for group in optim.param_groups:
            group["lr"] = fit.peak_rate * rate_share
        optim.step()
    return {k: round(float(v.detach()), 4) for k, v in losses.items()}


@torch.no_grad()
def validate(fitter: Fitter, text: SpokenText, device: torch.device) -> dict[str, dict[str, float]]:
    """Losses on unseen sentences at m = 1, 3, 5."""
    out: dict[str, dict[str, float]] = {}
    for m in (1, 3, 5):
        sums: dict[str, float] = {}
        count = 0
        for batch in validation_batches(text, Options("S1", m, 1), 8000):
            losses = fitter(batch.to(device))
            weight = len(batch.target_at)
            count += weight
            for k, v in losses.items():
                sums[k] = sums.get(k, 0.0) + float(v) * weight
        out[f"m{m}"] = {k: round(v / max(count, 1), 4) for k, v in sums.items()}
    return out


def _begin_from(net: SpeakStream, path: Path) -> None:
    weights = load_file(path)
    misfits = net.load_state_dict(weights, strict=False)
    lacking = [k for k in misfits.missing_keys if not k.startswith("decoder.blocks.")]
    if lacking or misfits.unexpected_keys:
        raise BadFile(
            f"{path} does not fit this net: {', '.join([*lacking, *misfits.unexpected_keys][:3])}",
            "give weights of the same widths and speakers, with as many layers or fewer",
        )


def _set_silence(net: SpeakStream, text: SpokenText) -> None:
    for i, speaker in enumerate(text.speakers):
        net.silence[i] = torch.from_numpy(text.silence[speaker]).to(net.silence)


def _save(state: Path, fitter: Fitter, optims: list[torch.optim.Optimizer], at: Progressed) -> None:
    part = state / ".checkpoint.part"
    torch.save({"fitter": fitter.state_dict(), "optims": [o.state_dict() for o in optims], "at": vars(at)}, part)
    part.rename(state / "checkpoint.pt")
    weights = {k: v.detach().cpu().contiguous() for k, v in fitter.net.state_dict().items()}
    part = state / ".weights.part"
    save_file(weights, part)
    part.rename(state / "speakstream.safetensors")


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
