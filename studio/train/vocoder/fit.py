"""Training of vocoders: restartable, one recipe for a CPU core or a GPU."""

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

from studio.core.errors import BadFile, BadOption
from studio.engine.alphabets import dmel
from studio.engine.vocoders.base import Vocoder
from studio.engine.vocoders.registry import build_vocoder
from studio.engine.voices import pick_device
from studio.train.loop.alone import alone
from studio.train.loop.weights import begin_from, write_weights
from studio.train.vocoder.data import Batch, Sounds, collate, crop, roughen
from studio.train.vocoder.discriminators import RESOLUTIONS, Adversary
from studio.train.vocoder.losses import SpectralLoss
from studio.train.vocoder.objectives import BEGINNINGS, OBJECTIVES, WEIGHTS, Made, judges

_RANGES = {
    "steps": (1, 10**8),
    "rows": (1, 10**5),
    "crop_frames": (1, 10**5),
    "warm_frames": (0, 10**5),
    "learning_rate": (0.0, 1.0),
    "warm_up_steps": (1, 10**8),
    "ema": (0.0, 1.0),
    "seed": (0, 2**63 - 1),
    "shards": (1, 10**6),
    "checkpoint_s": (0.0, 1e6),
}


@dataclass(frozen=True)
class VocoderFit:
    """Settings of one training.

    Attributes:
        corpus: a folder of shards, each with labels.jsonl and WAV files at the voice's rate.
        state: where checkpoints, the metrics log and the analysed corpus are kept; a run continues from there.
        export: the weights to write; the configuration goes beside them as JSON.
        crop_frames, warm_frames: frames of a crop, of which the first ones only warm the net up and are not scored.
        steps, budget_s: the end, whichever comes first; seconds count training alone, over all restarts.
        start: weights to begin from instead of chance, such as those of a training without discriminators; for
            sourcevocos also those of a sourcefilter of the same sizes.
        adversarial_from: the step from which discriminators have a say; None means never.
        resolutions: transform lengths of the spectra that they judge, samples; each costs as much as five of samples.
        shards: at most so many shards are used, also those that appear while training runs.
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
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:  # NaN is none
                raise BadOption(f"the vocoder's {name} cannot be {value!r:.40}", f"it is from {low:,} to {high:,}")
        if self.warm_frames >= self.crop_frames:
            raise BadOption(
                f"the vocoder's warm_frames are {self.warm_frames} of {self.crop_frames} crop_frames",
                "leave some of them to be scored",
            )


class Trainer:
    """A model, its optimiser and averages, and where they are kept."""

    def __init__(self, settings: VocoderFit) -> None:
        self.settings = s = settings
        torch.set_num_threads(s.threads)
        torch.manual_seed(s.seed)
        self.device = pick_device(s.device)
        self.model: Vocoder[Any] = build_vocoder(s.vocoder, s.config).to(self.device)
        self.checkpoint = s.state / "checkpoint.pt"
        if s.start is not None and not self.checkpoint.exists():
            begin_from(self.model, s.start, BEGINNINGS.get(s.vocoder, ()))
        self.average: Vocoder[Any] = build_vocoder(s.vocoder, s.config).to(self.device).requires_grad_(False)
        self.average.load_state_dict(self.model.state_dict())
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=s.learning_rate, betas=(0.9, 0.99), weight_decay=0.01
        )
        self.adversary = Adversary(judges(self.model, s.resolutions), s.learning_rate / 2).to(self.device)
        self.spectral = SpectralLoss(self.model.config.sample_rate_hz).to(self.device)
        self.step = 0
        self.trained_s = 0.0
        self.sounds = Sounds(s.corpus, s.state / "sounds")
        if self.checkpoint.exists():
            self._load()

    def _load(self) -> None:
        """Go on from the checkpoint. Raises BadFile."""
        try:
            self._restore(torch.load(self.checkpoint, map_location=self.device, weights_only=True))
        except Exception as error:
            raise BadFile(
                f"{self.checkpoint} is damaged, or of other settings: {' '.join(str(error).split()):.200}",
                "remove it, or name another folder with --state",
            ) from error

    def _restore(self, kept: dict[str, Any]) -> None:
        self.model.load_state_dict(kept["model"])
        self.average.load_state_dict(kept["average"])
        self.optimizer.load_state_dict(kept["optimizer"])
        self.step, self.trained_s = kept["step"], kept["trained_s"]
        if "adversary" in kept:
            self.adversary.load_state_dict(kept["adversary"])
            self.adversary.optimizer.load_state_dict(kept["adversary_optimizer"])

    def save(self) -> None:
        """Write the averaged weights and their configuration for whoever assembles a voice, then the checkpoint.

        Raises:
            BadFile: the training has diverged; what was saved before is kept.
        """
        if not all(bool(one.isfinite().all()) for one in (*self.model.parameters(), *self.average.parameters())):
            raise BadFile(
                f"the training has diverged: a weight is no number after {self.step} steps",
                f"{self.settings.state} is as it was saved before; lower the learning_rate",
            )
        export_vocoder(self.average, self.settings.export)
        kept = {
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "adversary": self.adversary.state_dict(),
            "adversary_optimizer": self.adversary.optimizer.state_dict(),
            "step": self.step,
            "trained_s": self.trained_s,
        }
        part = self.checkpoint.with_suffix(".part")
        torch.save(kept, part)
        part.rename(self.checkpoint)

    def learning_rate(self) -> float:
        """Warm-up, then a cosine over all there is to do, down to a fiftieth."""
        s = self.settings
        warm = min(1.0, (self.step + 1) / s.warm_up_steps)
        return s.learning_rate * warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * self.done())))

    def done(self) -> float:
        """How much of the training is behind us, 0 to 1."""
        s = self.settings
        shares = (self.step / s.steps, self.trained_s / s.budget_s if s.budget_s else 0.0)
        return min(1.0, max(shares))

    def losses(self, model: Vocoder[Any], batch: Batch, mels: Tensor) -> tuple[Made, dict[str, Tensor]]:
        """What a model makes of a batch, and every term of its loss."""
        made = OBJECTIVES[model.name](model, batch, mels, self.settings.warm_frames)
        return made, made.losses | self.spectral(made.pcm, made.wanted)

    def train_step(self) -> dict[str, float]:
        """One update on a batch that depends on the seed and the step alone."""
        s = self.settings
        rng = np.random.default_rng((s.seed, self.step))
        batch = self.sounds.batch(rng, s.rows, s.crop_frames)
        mels = roughen(batch.mels, rng)
        batch = Batch(batch.mels, batch.pcm.to(self.device), batch.f0_hz.to(self.device))
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate()
        made, terms = self.losses(self.model, batch, mels.to(self.device))
        judged = {}
        if s.adversarial_from is not None and self.step >= s.adversarial_from:
            judged = {"judge": self.adversary.learn(made.pairs)}
            terms["deceive"] = self.adversary.deceive_loss(made.pairs)
        total = weighted(terms)
        self.optimizer.zero_grad(set_to_none=True)
        total.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 3.0)
        self.optimizer.step()
        share = 1 - min(s.ema, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for mine, new in zip(self.average.parameters(), self.model.parameters(), strict=True):
                mine.lerp_(new, share)
        self.step += 1
        scores = {name: float(value.detach()) for name, value in terms.items()}
        return scores | judged | {"total": float(total.detach()), "norm": float(norm)}

    @torch.no_grad()
    def validate(self, most: int = 24, frames: int = 80) -> dict[str, float]:
        """Losses of the averaged weights on unseen sentences' middles, as dMel levels without noise."""
        long = [sound for sound in self.sounds.unseen if len(sound.mels) >= frames]
        sounds = long[:: max(1, len(long) // most)][:most]
        batch = collate([crop(sound, (len(sound.mels) - frames) // 2, frames) for sound in sounds])
        mels = dmel.dequantise(dmel.quantise(batch.mels)).to(self.device)
        batch = Batch(batch.mels, batch.pcm.to(self.device), batch.f0_hz.to(self.device))
        _, terms = self.losses(self.average, batch, mels)
        return {name: float(value) for name, value in (terms | {"total": weighted(terms)}).items()}


def weighted(terms: dict[str, Tensor]) -> Tensor:
    """The sum of a loss's terms, each with its weight."""
    return torch.stack([WEIGHTS[name] * value for name, value in terms.items()]).sum()


def export_vocoder(model: Vocoder[Any], path: Path) -> None:
    """Write a vocoder's weights (fp32, names as in its state_dict), and beside them its configuration as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_weights({name: tensor.float() for name, tensor in model.state_dict().items()}, path)
    text = json.dumps({"vocoder": model.name, "config": model.plain_config()}, indent=1)
    path.with_suffix(".json").write_text(text + "\n", encoding="utf-8")


def fit(settings: VocoderFit) -> dict[str, float]:
    """Train to the end of the settings, from the last checkpoint if there is one; returns the last validation.

    The log ``metrics.jsonl`` in the state folder gets a line at every checkpoint.

    Raises:
        BadFile: the corpus has too little sound or a damaged one, the checkpoint is damaged or of other settings, the
            training diverges, or another one is at work in the state folder.
        BadOption: there is no such device.
        NeedsPackage: this machine has no GPU.
    """
    with alone(settings.state):
        return _fit(Trainer(settings))


def _fit(trainer: Trainer) -> dict[str, float]:
    settings = trainer.settings
    (settings.state / "settings.json").write_text(json.dumps(asdict(settings), indent=1, default=str) + "\n")
    trainer.sounds.refresh(settings.shards)
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
            trainer.sounds.refresh(min(2, settings.shards - len(trainer.sounds.shards)))
            recent = []
            saved = time.monotonic()
    return scores


def _log_line(
    trainer: Trainer, recent: list[dict[str, float]], scores: dict[str, float], steps_per_s: float
) -> dict[str, Any]:
    return {
        "step": trainer.step,
        "trained_s": round(trainer.trained_s, 1),
        "steps_per_s": round(steps_per_s, 3),
        "sounds": len(trainer.sounds.train),
        "learning_rate": trainer.learning_rate(),
        "train": {name: float(np.mean([each[name] for each in recent if name in each])) for name in recent[-1]},
        "unseen": scores,
    }
