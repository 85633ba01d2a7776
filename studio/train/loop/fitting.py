"""What every family's training shares: a restartable loop, a copy for the arithmetic, the optimisers."""

import copy
import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn

from studio.core.errors import BadFile
from studio.train.loop.alone import alone
from studio.train.loop.arithmetic import arithmetic
from studio.train.loop.muon import Float32Muon
from studio.train.loop.room import TRAINED_BYTES, check_room
from studio.train.loop.spoken import SpokenText
from studio.train.loop.weights import begin_from, begin_like, write_weights
from studio.train.recipes.fits import FitRecipe
from studio.train.recipes.recipe import Recipe

_SAVE_EVERY_S = 180.0
_MOST_SKIPPED = 20  # batches in a row that nothing can be learned from
_CHECK_EVERY_S = {"cpu": 420.0, "cuda": 60.0}


class Fitter(nn.Module, ABC):
    """A family's net beside what only training needs.

    Attributes:
        net: what is kept.
        beginnings: names of weights that ``begin_from`` may lack, by their first letters: layers that begin as the
            identity.
        prepared: names of what ``Fitting.prepare`` writes of each speaker, which ``begin_from`` passes over: a voice
            whose speakers are told by recordings may begin from one with others.
    """

    net: Any  # an nn.Module with its config
    beginnings: tuple[str, ...] = ()
    prepared: tuple[str, ...] = ()

    @abstractmethod
    def forward(self, batch: Any) -> dict[str, Tensor]:
        """Losses of a batch, and other figures to be logged; ``frame`` is in nats per channel."""

    @abstractmethod
    def total(self, losses: dict[str, Tensor]) -> Tensor:
        """What is minimised."""

    @abstractmethod
    def own_frames(self, batch: Any, share: float, temperature: float) -> Any:
        """The batch with a share of the frames fed back drawn by the net itself."""

    @abstractmethod
    def matrices(self) -> list[nn.Parameter]:
        """Matrices of hidden layers, which Muon takes."""


class Fitting(ABC):
    """One family's training by a recipe.

    Attributes:
        beside: files of the state folder that belong to the voice, beside its weights.
    """

    beside: tuple[str, ...] = ()

    def __init__(self, recipe: Recipe, fitter: Fitter) -> None:
        assert recipe.fit is not None
        self.recipe, self.settings, self.fitter = recipe, recipe.fit, fitter

    def prepare(self, text: SpokenText, state: Path) -> None:
        """Give the net what it keeps of the speakers: the silence of each. Raises BadFile where something lacks."""
        silence = self.fitter.net.get_buffer("silence")
        for i, speaker in enumerate(text.speakers):
            silence[i] = torch.from_numpy(text.silence[speaker]).to(silence)

    def begin_like(self, path: Path, state: Path) -> None:
        """Begin with the layers that the prepared net has in common with another family's. Raises BadFile."""
        begin_like(self.fitter.net, path)

    @abstractmethod
    def batches(self, text: SpokenText, number: int) -> Iterator[Any]:
        """One pass over every sentence; the same for the same number."""

    @abstractmethod
    def validate(self, text: SpokenText, device: torch.device) -> dict[str, dict[str, float]]:
        """Losses on unseen sentences, by setting."""


Passes = Callable[[int], Iterator[Any]]  # the batches of a pass by its number


@dataclass
class Progressed:
    """Where a run is: steps done, the pass and how many of its batches are done."""

    step: int = 0
    number: int = 0
    batch: int = 0
    trained_s: float = 0.0

    def done(self, steps: int, budget_s: float | None) -> float:
        """The share of the training that is behind us."""
        return max(self.step / steps, self.trained_s / budget_s if budget_s else 0.0)


def rate_at(done: float, recipe: FitRecipe) -> float:
    """Share of the peak rate at a share of all steps: warm-up, flat, linear fall."""
    if done < recipe.warmup_share:
        return max(done / recipe.warmup_share, 0.02)
    if not recipe.decay_share:
        return 1.0  # it never falls
    return min(1.0, max(0.0, (1.0 - done) / recipe.decay_share))


class WorkingCopy:
    """A copy of a net that does the arithmetic, mostly in bfloat16, while float32 masters do the learning.

    On a CPU this is a fifth faster than autocast, which casts every weight and activation again.
    """

    def __init__(self, master: Fitter) -> None:
        self.master = master
        self.copy = copy.deepcopy(master).to(arithmetic(next(master.parameters()).device))
        self._pairs = list(zip(master.parameters(), self.copy.parameters(), strict=True))

    def losses(self, batch: Any, own_share: float, temperature: float) -> dict[str, Tensor]:
        """Losses of a batch by the master's present weights, a share of whose frames the net drew itself."""
        with torch.no_grad():
            for master, working in self._pairs:
                working.copy_(master)
                working.grad = None
        if own_share:
            batch = self.copy.own_frames(batch, own_share, temperature)
        return self.copy(batch)

    def hand_over_gradients(self) -> None:
        """Give the master what a backward pass left."""
        for master, working in self._pairs:
            master.grad = None if working.grad is None else working.grad.float()


def optimisers(fitter: Fitter, recipe: FitRecipe) -> list[torch.optim.Optimizer]:
    """Muon for the layers' matrices, AdamW for tables, heads and norms."""
    matrices = fitter.matrices()
    chosen = {id(p) for p in matrices}
    others = [p for p in fitter.parameters() if id(p) not in chosen]
    muon = torch.optim.Muon if arithmetic(matrices[0].device) == torch.bfloat16 else Float32Muon
    return [
        muon(matrices, lr=recipe.peak_rate, weight_decay=0.02, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=recipe.peak_rate, betas=(0.9, 0.98), weight_decay=0.01),
    ]


def run(
    fitting: Fitting,
    features: Path,
    state: Path,
    device: torch.device,
    threads: int | None = None,
    start: Path | None = None,
    like: Path | None = None,
    passes: Passes | None = None,
    budget_s: float | None = None,
) -> Path:
    """Train until the steps are done or the seconds are spent, whichever comes first; answers the weights' path.

    It goes on from wherever ``state`` says. ``start`` are weights to begin from instead of chance, such as a shipped
    voice's; layers that they lack are added on top, and begin as the identity. ``like`` are weights of another
    family, of which every layer of the same name and shape is taken over. ``passes`` makes the batches of a pass
    elsewhere; else they are made here.
    Metrics go to ``state/metrics.jsonl`` (one line a few steps, one a validation).

    Raises:
        BadFile: the training diverges (what was saved before is kept), there is no sentence to learn from, the state
            is damaged or of another recipe, or another training is at work in it.
        BadOption: the machine has no room for it.
    """
    if threads:
        torch.set_num_threads(threads)
    if device.type == "cpu":
        check_room(fitting.fitter, TRAINED_BYTES)
    with alone(state):
        return _run(fitting, features, state, device, start, like, passes, budget_s)


def _run(
    fitting: Fitting,
    features: Path,
    state: Path,
    device: torch.device,
    start: Path | None,
    like: Path | None,
    passes: Passes | None,
    budget_s: float | None,
) -> Path:
    recipe, settings = fitting.recipe, fitting.settings
    fitter = fitting.fitter.to(device)
    optims = optimisers(fitter, settings)
    at = _resume(state, settings.family, fitter, optims, device)
    if start is not None and at.step == 0:
        begin_from(fitter.net, start, fitter.beginnings, fitter.prepared)
    text = SpokenText.of(features, recipe.corpus)
    fitting.prepare(text, state)
    if like is not None and at.step == 0:
        fitting.begin_like(like, state)
    steps = settings.steps
    copied = WorkingCopy(fitter)
    saved = checked = last = time.monotonic()
    done, skipped = at.done(steps, budget_s), 0
    log = (state / "metrics.jsonl").open("a", encoding="utf-8", buffering=1)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress:
        bar = progress.add_task(f"fitting {text.hours:.1f} h", total=steps, completed=at.step)
        while done < 1.0:
            made = fitting.batches(text, at.number) if passes is None else passes(at.number)
            i = -1
            for i, batch in enumerate(made):
                if i < at.batch:
                    continue
                share = rate_at(done, settings)
                own_share = settings.own_share * (at.step % 2)
                losses = train_step(copied, optims, batch.to(device), fitting, share, own_share)
                at.step, at.batch = at.step + 1, i + 1
                skipped = skipped + 1 if "skipped" in losses else 0
                if skipped == _MOST_SKIPPED:
                    raise _diverged(state, f"{skipped} batches in a row had a gradient that is no number")
                progress.update(bar, completed=at.step, description=f"frame {losses.get('frame', math.nan):.3f}")
                if at.step % 10 == 0 or skipped:
                    log.write(json.dumps({"step": at.step, "rate": share, "hours": text.hours, **losses}) + "\n")
                now = time.monotonic()
                at.trained_s, last = at.trained_s + now - last, now
                done = at.done(steps, budget_s)
                if now - checked > _CHECK_EVERY_S[device.type] or done >= 1.0:
                    checked = now
                    found = fitting.validate(text, device)
                    log.write(json.dumps({"step": at.step, "validation": found}) + "\n")
                if now - saved > _SAVE_EVERY_S or done >= 1.0:
                    saved = now
                    _save(state, settings.family, fitter, optims, at)
                if done >= 1.0:
                    break
            else:
                if i < 0:  # or it would look for one for ever
                    raise _nothing_to_learn(features)
                at.number, at.batch = at.number + 1, 0
                text = SpokenText.of(features, recipe.corpus)
    log.close()
    return state / f"{settings.family}.safetensors"


def train_step(
    copied: WorkingCopy,
    optims: list[torch.optim.Optimizer],
    batch: Any,
    fitting: Fitting,
    rate_share: float,
    own_share: float,
) -> dict[str, float]:
    """One step at a share of the peak rate; answers the losses.

    Where a gradient is no number nothing is learned from the batch, and ``skipped`` is 1.
    """
    losses = copied.losses(batch, own_share, fitting.recipe.temperature)
    copied.copy.total(losses).backward()
    copied.hand_over_gradients()
    told = {k: round(float(v.detach()), 4) for k, v in losses.items() if v.isfinite()}
    if not nn.utils.clip_grad_norm_(copied.master.parameters(), 1.0).isfinite():
        return told | {"skipped": 1.0}
    for optim in optims:
        for group in optim.param_groups:
            group["lr"] = fitting.settings.peak_rate * rate_share
        optim.step()
    return told


@torch.no_grad()
def mean_losses(fitter: Fitter, batches: Iterator[Any], device: torch.device) -> dict[str, float]:
    """Losses of batches, each weighed by the frames that it predicts (``batch.predicted``)."""
    sums: dict[str, float] = {}
    count = 0
    for batch in batches:
        losses = fitter(batch.to(device))
        count += batch.predicted
        for k, v in losses.items():
            sums[k] = sums.get(k, 0.0) + float(v) * batch.predicted
    return {k: round(v / max(count, 1), 4) for k, v in sums.items()}


def drawn_levels(logits: Tensor, temperature: float) -> Tensor:
    """Levels drawn from logits [..., 16] by torch's own generator, uint8 [...]: frames that a net feeds itself.

    The likeliest ones at a temperature of 0.
    """
    if not temperature:
        return logits.argmax(-1).to(torch.uint8)
    shares = (logits.float() / temperature).softmax(-1)
    noise = torch.rand(*shares.shape[:-1], 1, device=shares.device)
    return (shares.cumsum(-1) < noise).sum(-1).clamp(max=shares.shape[-1] - 1).to(torch.uint8)


def _diverged(state: Path, why: str) -> BadFile:
    return BadFile(f"the training has diverged: {why}", f"{state} is as it was saved before; lower the peak_rate")


def _nothing_to_learn(features: Path) -> BadFile:
    return BadFile(
        f"{features} leaves no sentence to learn from",
        "make more with `studio train features`, or write fewer validation_shards into the recipe's [corpus]",
    )


def _save(state: Path, family: str, fitter: Fitter, optims: list[torch.optim.Optimizer], at: Progressed) -> None:
    if not all(bool(parameter.isfinite().all()) for parameter in fitter.parameters()):
        raise _diverged(state, f"a weight is no number after {at.step} steps")
    # The weights first: who stops between the two goes on from before them, and writes them again.
    write_weights(fitter.net.state_dict(), state / f"{family}.safetensors")
    part = state / ".checkpoint.part"
    kept = {"fitter": fitter.state_dict(), "optims": [o.state_dict() for o in optims], "at": vars(at)}
    torch.save(kept | {"family": family}, part)
    part.rename(state / "checkpoint.pt")


def _resume(
    state: Path, family: str, fitter: Fitter, optims: list[torch.optim.Optimizer], device: torch.device
) -> Progressed:
    path = state / "checkpoint.pt"
    if not path.is_file():
        return Progressed()
    try:
        saved = torch.load(path, map_location=device, weights_only=True)
        if (of := saved.get("family", family)) != family:  # some families have nets of one shape
            raise ValueError(f"it is of the family {of!r:.40}")
        fitter.load_state_dict(saved["fitter"])
        for optim, values in zip(optims, saved["optims"], strict=True):
            optim.load_state_dict(values)
        at = Progressed(**saved["at"])
        if not all(bool(parameter.isfinite().all()) for parameter in fitter.parameters()):
            raise ValueError("a weight is no number")
    except Exception as error:
        why = " ".join(str(error).split())[:200]
        raise BadFile(
            f"{path} is damaged, or of another recipe: {why}", "remove it, or name another folder with --state"
        ) from error
    return at
