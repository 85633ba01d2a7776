"""Vocoder training, on a CPU core or a GPU. A stopped run resumes."""

import json
import math
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

from studio.core.checks import check_values, number, whole
from studio.core.errors import BadOption
from studio.engine.tokenizers import dmel
from studio.engine.vocoders.base import Vocoder
from studio.engine.vocoders.module import build_vocoder
from studio.engine.voices import pick_device
from studio.train.fit.resources import (
    check_finite,
    load_checkpoint,
    load_initial_weights,
    lock_state_folder,
    save_checkpoint,
    write_weights,
)
from studio.train.vocoder.data import VocoderBatch, VocoderDataset, collate, crop, degrade
from studio.train.vocoder.losses import (
    IDENTITY_PREFIXES,
    OBJECTIVES,
    RESOLUTIONS,
    WEIGHTS,
    Discriminators,
    SpectralLoss,
    VocoderOutput,
    build_discriminators,
)

_RULES = {
    "steps": whole(1, 10**8),
    "rows": whole(1, 10**5),
    "crop_frames": whole(1, 10**5),
    "warm_frames": whole(0, 10**5),
    "learning_rate": number(0.0, 1.0),
    "warm_up_steps": whole(1, 10**8),
    "ema": number(0.0, 1.0),
    "seed": whole(0, 2**63 - 1),
    "shards": whole(1, 10**6),
    "checkpoint_s": number(0.0, 1e6),
}


@dataclass(frozen=True)
class VocoderFit:
    """Settings of a vocoder training.

    Attributes:
        corpus: a folder of shards, each with labels.jsonl and WAV files at the voice's rate.
        state: folder of checkpoints, the metrics log and the analysed corpus; a run resumes from it.
        export: path of the weights to write; the configuration goes beside them as JSON.
        crop_frames, warm_frames: frames of a crop; the first ``warm_frames`` are not scored.
        steps, budget_s: the end, whichever comes first; seconds of training, over all restarts.
        start: initial weights, such as those of a training without discriminators; for sourcevocos also those of a
            sourcefilter of the same sizes.
        adversarial_from: the first step with discriminators; None for never.
        resolutions: FFT lengths of the multi-resolution discriminators, samples; each costs as much as five of samples.
        shards: the maximum number, including those that appear during training.
    """

    corpus: Path
    state: Path
    export: Path
    vocoder: str = "sourcefilter"
    config: dict[str, Any] = field(default_factory=dict)
    steps: int = 12000
    budget_s: float | None = None
    rows: int = 8
    crop_frames: int = 56
    warm_frames: int = 8
    learning_rate: float = 2e-3
    warm_up_steps: int = 200
    ema: float = 0.998
    seed: int = 0
    threads: int = 1
    device: str = "auto"
    shards: int = 12
    checkpoint_s: float = 120.0
    start: Path | None = None
    adversarial_from: int | None = None
    resolutions: tuple[int, ...] = RESOLUTIONS

    def __post_init__(self) -> None:
        check_values(vars(self), _RULES, "the vocoder's {} cannot be")
        if self.warm_frames >= self.crop_frames:
            raise BadOption(
                f"the vocoder's warm_frames are {self.warm_frames} of {self.crop_frames} crop_frames",
                "warm_frames must be fewer",
            )


class VocoderTrainer:
    """A vocoder, its moving average, optimisers and checkpoints."""

    def __init__(self, settings: VocoderFit) -> None:
        self.settings = s = settings
        torch.set_num_threads(s.threads)
        torch.manual_seed(s.seed)
        self.device = pick_device(s.device)
        self.model: Vocoder[Any] = build_vocoder(s.vocoder, s.config).to(self.device)
        self.checkpoint = s.state / "checkpoint.pt"
        if s.start is not None and not self.checkpoint.exists():
            load_initial_weights(self.model, s.start, IDENTITY_PREFIXES.get(s.vocoder, ()))
        self.average: Vocoder[Any] = build_vocoder(s.vocoder, s.config).to(self.device).requires_grad_(False)
        self.average.load_state_dict(self.model.state_dict())
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=s.learning_rate, betas=(0.9, 0.99), weight_decay=0.01
        )
        self.discriminators = Discriminators(build_discriminators(self.model, s.resolutions), s.learning_rate / 2).to(
            self.device
        )
        self.spectral = SpectralLoss(self.model.config.sample_rate_hz).to(self.device)
        self.step = 0
        self.trained_s = 0.0
        self.data = VocoderDataset(s.corpus, s.state / "sounds")
        if self.checkpoint.exists():
            load_checkpoint(self.checkpoint, self.device, self._restore)

    def _restore(self, checkpoint: dict[str, Any]) -> None:
        self.model.load_state_dict(checkpoint["model"])
        self.average.load_state_dict(checkpoint["average"])
        self.optimizer.load_state_dict(checkpoint["optimizer"])
        self.step, self.trained_s = checkpoint["step"], checkpoint["trained_s"]
        if "adversary" in checkpoint:
            self.discriminators.load_state_dict(checkpoint["adversary"])
            self.discriminators.optimizer.load_state_dict(checkpoint["adversary_optimizer"])

    def save(self) -> None:
        """Export the averaged weights and their configuration, then write the checkpoint. Raises BadFile."""
        check_finite((*self.model.parameters(), *self.average.parameters()), self.settings.state, self.step)
        export_vocoder(self.average, self.settings.export)
        checkpoint = {
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "adversary": self.discriminators.state_dict(),
            "adversary_optimizer": self.discriminators.optimizer.state_dict(),
            "step": self.step,
            "trained_s": self.trained_s,
        }
        save_checkpoint(checkpoint, self.checkpoint)

    def learning_rate(self) -> float:
        """Warm-up, then a cosine decay over the whole training, down to a fiftieth."""
        s = self.settings
        warm = min(1.0, (self.step + 1) / s.warm_up_steps)
        return s.learning_rate * warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * self.done())))

    def done(self) -> float:
        """Share of the training that is done, 0 to 1."""
        s = self.settings
        shares = (self.step / s.steps, self.trained_s / s.budget_s if s.budget_s else 0.0)
        return min(1.0, max(shares))

    def losses(self, model: Vocoder[Any], batch: VocoderBatch, mels: Tensor) -> tuple[VocoderOutput, dict[str, Tensor]]:
        """A model's output for a batch, and all terms of its loss."""
        output = OBJECTIVES[model.name](model, batch, mels, self.settings.warm_frames)
        return output, output.losses | self.spectral(output.pcm, output.target)

    def train_step(self) -> dict[str, float]:
        """One update on a batch that depends only on the seed and the step."""
        s = self.settings
        rng = np.random.default_rng((s.seed, self.step))
        batch = self.data.batch(rng, s.rows, s.crop_frames)
        mels = degrade(batch.mels, rng)
        batch = VocoderBatch(batch.mels, batch.pcm.to(self.device), batch.f0_hz.to(self.device))
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate()
        output, terms = self.losses(self.model, batch, mels.to(self.device))
        judged = {}
        if s.adversarial_from is not None and self.step >= s.adversarial_from:
            judged = {"judge": self.discriminators.update(output.pairs)}
            terms["deceive"] = self.discriminators.generator_loss(output.pairs)
        total = weighted(terms)
        self.optimizer.zero_grad(set_to_none=True)
        total.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 3.0)
        self.optimizer.step()
        share = 1 - min(s.ema, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for averaged, current in zip(self.average.parameters(), self.model.parameters(), strict=True):
                averaged.lerp_(current, share)
        self.step += 1
        scores = {name: float(value.detach()) for name, value in terms.items()}
        return scores | judged | {"total": float(total.detach()), "norm": float(norm)}

    @torch.no_grad()
    def validate(self, limit: int = 24, frames: int = 80) -> dict[str, float]:
        """Losses of the averaged weights on the middles of validation sentences, quantised to dMel levels."""
        long = [sound for sound in self.data.validation if len(sound.mels) >= frames]
        sounds = long[:: max(1, len(long) // limit)][:limit]
        batch = collate([crop(sound, (len(sound.mels) - frames) // 2, frames) for sound in sounds])
        mels = dmel.dequantise(dmel.quantise(batch.mels)).to(self.device)
        batch = VocoderBatch(batch.mels, batch.pcm.to(self.device), batch.f0_hz.to(self.device))
        _, terms = self.losses(self.average, batch, mels)
        return {name: float(value) for name, value in (terms | {"total": weighted(terms)}).items()}


def weighted(terms: dict[str, Tensor]) -> Tensor:
    """The weighted sum of a loss's terms."""
    return torch.stack([WEIGHTS[name] * value for name, value in terms.items()]).sum()


def export_vocoder(model: Vocoder[Any], path: Path) -> None:
    """Write a vocoder's weights (float32), and beside them its configuration as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_weights({name: tensor.float() for name, tensor in model.state_dict().items()}, path)
    text = json.dumps({"vocoder": model.name, "config": model.plain_config()}, indent=1)
    path.with_suffix(".json").write_text(text + "\n", encoding="utf-8")


def fit(settings: VocoderFit) -> dict[str, float]:
    """Train, resuming from the last checkpoint; returns the last validation losses.

    ``metrics.jsonl`` in the state folder gets a line at every checkpoint.

    Raises:
        BadFile: the corpus is too small or damaged, the checkpoint is damaged or of other settings, the training
            diverges, or another one uses the state folder.
        BadOption: unknown device.
        NeedsPackage: this machine has no GPU.
    """
    with lock_state_folder(settings.state):
        return _fit(VocoderTrainer(settings))


def _fit(trainer: VocoderTrainer) -> dict[str, float]:
    settings = trainer.settings
    (settings.state / "settings.json").write_text(json.dumps(asdict(settings), indent=1, default=str) + "\n")
    trainer.data.refresh(settings.shards)
    scores: dict[str, float] = {}
    recent: list[dict[str, float]] = []
    columns = (*Progress.get_default_columns()[:-1], TimeRemainingColumn(), TextColumn("{task.fields[loss]}"))
    with Progress(*columns) as progress, (settings.state / "metrics.jsonl").open("a", encoding="utf-8") as log:
        task = progress.add_task(settings.vocoder, total=1.0, loss="")
        progress.update(task, completed=trainer.done())
        saved = time.monotonic()
        while trainer.done() < 1:
            began = time.monotonic()
            recent.append(trainer.train_step())
            now = time.monotonic()
            trainer.trained_s += now - began
            progress.update(task, completed=trainer.done(), loss=f"loss {recent[-1]['total']:.3f}")
            if now - saved < settings.checkpoint_s and trainer.done() < 1:
                continue
            scores = trainer.validate()
            log.write(json.dumps(_log_line(trainer, recent, scores, len(recent) / (now - saved))) + "\n")
            log.flush()
            trainer.save()
            trainer.data.refresh(min(2, settings.shards - len(trainer.data.shards)))
            recent = []
            saved = time.monotonic()
    return scores


def _log_line(
    trainer: VocoderTrainer, recent: list[dict[str, float]], scores: dict[str, float], steps_per_s: float
) -> dict[str, Any]:
    return {
        "step": trainer.step,
        "trained_s": round(trainer.trained_s, 1),
        "steps_per_s": round(steps_per_s, 3),
        "sounds": len(trainer.data.train),
        "learning_rate": trainer.learning_rate(),
        "train": {name: float(np.mean([each[name] for each in recent if name in each])) for name in recent[-1]},
        "unseen": scores,
    }
