"""Train DSM-TTS: the frames of each step, and where words begin (paper 002, sections 3.3 and 4.2).

Text is an input and has no loss. A training-only head names the phone of the predicted frame, as for SpeakStream
(docs/adr/0004).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from studio.core.errors import BadOption
from studio.engine.families.common.text_tokens import FILE as BPE_FILE
from studio.engine.families.common.text_tokens import Bpe
from studio.engine.families.dsm.model import Dsm, DsmConfig
from studio.engine.nets.transformer import AttentionHook
from studio.engine.tokenizers import dmel
from studio.train.families.common import GuidedHead, WeightedLossModule, noise_of, validation_sentences
from studio.train.families.dsm_batches import DsmBatch, DsmSequence, DsmSequencer, collate, draw
from studio.train.features import PHONES
from studio.train.fit.dataset import SpeechDataset, find_prompts
from studio.train.fit.resources import load_shared_weights, read_weights
from studio.train.fit.training import FamilyTraining, Groups, Rng, sample_levels
from studio.train.recipes.fits import DsmFit

_FRAME_ENERGY = 0.995  # share of the frames' energy in the directions that are projected out


def tokens_of(path: Path, encoding: Path) -> Tensor | None:
    """The trained token embeddings of an IST-LM, [N, D]; None unless it has the same encoding. Raises BadFile.

    Args:
        path: its weights, with its own encoding beside them.
        encoding: a file of byte pairs.
    """
    theirs = path.with_name(BPE_FILE)
    if not theirs.is_file() or theirs.read_bytes() != encoding.read_bytes():
        return None
    return read_weights(path).get("symbol.weight")


@torch.no_grad()
def lay_text_apart(net: Dsm, tokens: Tensor | None) -> None:
    """Make text embeddings orthogonal to frame embeddings, and as long (docs/adr/0019).

    Streams and frames are added, and the net has to distinguish them. Trained frames are ten times as long as tokens
    and span few directions: these are projected out of both text streams. The look-ahead keeps its length, since it is
    not what is spoken. ``pad`` becomes zero.

    Args:
        net: with trained frame embeddings and the speakers' recordings.
        tokens: [N, D], initial embeddings of the encoding's tokens; None keeps the random ones.
    """
    recorded = net.extract[net.extract[:, :, 0] != dmel.PAD]
    frames = net.frame(net.level(recorded.long()).flatten(-2))
    _, sizes, directions = torch.linalg.svd(frames, full_matrices=False)
    shares = sizes.square().cumsum(0) / sizes.square().sum()
    directions = directions[: int((shares < _FRAME_ENERGY).sum()) + 1]
    text, ahead, count = net.text.weight, net.ahead.weight, net.config.text_tokens
    if tokens is not None:
        text[:count] = tokens[:count]
    for table in (text, ahead):
        table -= table @ directions.T @ directions
    text *= frames.norm(dim=-1).mean() / text[:count].norm(dim=-1).mean()
    text[net.config.symbols.pad] = 0.0


class DsmTrainingModule(WeightedLossModule):
    """DSM-TTS with its training-only phone head; one head of the backbone's attention may be guided."""

    net: Dsm

    identity_prefixes = ("decoder.blocks.", "cross.", "depth.stacks.0.blocks.")
    speaker_buffers = ("extract", "silence")

    def __init__(
        self, config: DsmConfig, phone_weight: float = 0.4, action_weight: float = 1.0, guide_weight: float = 0.0
    ) -> None:
        guide = {"guide": guide_weight} if guide_weight else {}
        super().__init__(Dsm(config), {"phone": phone_weight, "action": action_weight, **guide})
        self.phone_out = nn.Linear(config.width, len(PHONES))

    def forward(self, batch: DsmBatch) -> dict[str, Tensor]:
        """Losses ``frame`` (nats per channel), ``action`` (nats per step with one), ``phone``; ``guide`` if guided."""
        head = None
        if "guide" in self._weights:
            keys = batch.token_at.flatten()
            head = GuidedHead(self.net.decoder, torch.arange(len(keys), device=keys.device), keys)
        hidden = self._hidden(batch, head)
        logits, levels = self._frames(batch, hidden)
        there = levels != dmel.PAD
        has_action, has_phone = batch.action >= 0, batch.phones >= 0
        actions = self.net.action_out(hidden[has_action]).squeeze(-1).float()
        phones = self.phone_out(hidden[has_phone]).float()
        return {
            "frame": F.cross_entropy(logits[there], levels[there].long()),
            # A batch without any text has no action.
            "action": F.binary_cross_entropy_with_logits(actions, batch.action[has_action].float(), reduction="sum")
            / has_action.sum().clamp_min(1),
            "phone": F.cross_entropy(phones, batch.phones[has_phone]),
            **({} if head is None else {"guide": head.loss}),
        }

    def matrices(self) -> list[nn.Parameter]:
        """The matrices of the backbone, its cross-attention and the depth transformer's layers."""
        stacks = (self.net.decoder, self.net.cross, self.net.depth.stacks)
        return [p for stack in stacks for p in stack.parameters() if p.ndim == 2]

    @torch.no_grad()
    def own_frames(self, batch: DsmBatch, share: float, temperature: float) -> DsmBatch:
        """The batch with a share of the fed frames sampled from the net, each given the true past and groups."""
        logits, _ = self._frames(batch, self._hidden(batch))
        samples = sample_levels(logits, temperature)
        row, step = _predicting(batch).nonzero(as_tuple=True)
        fits = step + 1 < batch.fed.shape[1]
        chosen = fits & (torch.rand(len(step), device=step.device) < share)
        fed, at = batch.fed.clone(), (row[chosen], step[chosen] + 1)
        fed[at] = torch.where(batch.fed[at] != dmel.PAD, samples[chosen], batch.fed[at])
        return replace(batch, fed=fed)

    def _hidden(self, batch: DsmBatch, watch: AttentionHook | None = None) -> Tensor:
        """The backbone's hidden states [B, S, D]; ``watch`` as in ``Decoder``."""
        net = self.net
        speakers = net.speakers(net.encoder(batch.extracts), batch.speakers)
        return net.hidden(net.embed(batch.text, batch.ahead, batch.fed), speakers, watch)

    def _frames(self, batch: DsmBatch, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [N, 80, 16] and levels [N, 80] of the steps that predict any channel."""
        predicting = _predicting(batch)
        levels = batch.targets[predicting]
        return self.net.depth(hidden[predicting], self.net.level(levels.long())).float(), levels


def _predicting(batch: DsmBatch) -> Tensor:
    """The steps that predict any channel, bool [B, S]; those at both ends of the acoustic delay predict a part."""
    return (batch.targets != dmel.PAD).any(2)


class DsmTraining(FamilyTraining[DsmFit]):
    """Training of DSM-TTS by a recipe; the state folder holds its encoding, ``bpe.json``."""

    voice_files = (BPE_FILE,)

    def build_module(self) -> DsmTrainingModule:
        fit = self.settings
        config, self.validation_tokens = DsmConfig.read(fit.config), fit.batch_tokens
        if fit.extract_frames[1] > config.extract_frames:
            raise BadOption(
                f"[fit] wants recordings of at most {fit.extract_frames[1]} frames",
                f"[fit.config] keeps {config.extract_frames}",
            )
        return DsmTrainingModule(config, fit.phone_weight, fit.action_weight, fit.guide_weight)

    def prepare(self, data: SpeechDataset, state: Path) -> None:
        """Read the encoding; give the net each speaker's recording and silence. Raises BadFile, BadVoice."""
        super().prepare(data, state)
        net = self.module.net
        bpe = Bpe.for_fit(state, net.config.text_tokens)
        self._sequencer = DsmSequencer(bpe, net.config, self.settings.merge_dropout)
        for i, sentence in enumerate(find_prompts(data, *self.settings.extract_frames).values()):
            net.set_extract(i, torch.from_numpy(sentence.levels))

    def load_shared_weights(self, path: Path, state: Path) -> None:
        """See ``FamilyTraining``; if frame embeddings are copied, text is initialised to match. Raises BadFile."""
        net = self.module.net
        if "frame.weight" in load_shared_weights(net, path):
            lay_text_apart(net, tokens_of(path, state / BPE_FILE))

    def draw(self, groups: Groups, data: SpeechDataset, rng: Rng) -> Iterator[DsmSequence]:
        return (draw(group, data, self._sequencer, self.settings, rng) for group in groups)

    def validation(self, data: SpeechDataset) -> Iterator[tuple[str, list[DsmSequence]]]:
        """With the voice's own recordings, with text and without (the reference of guidance)."""
        first, sequencer = find_prompts(data, *self.settings.extract_frames), self._sequencer
        sequences = [
            sequencer.sequence(sequencer.spoken([s]), [first[s.speaker].levels[: self.settings.extract_frames[1]]])
            for s, _ in validation_sentences(data)
        ]
        yield "text", sequences
        yield "no text", [sequencer.without_text(one) for one in sequences]

    def collate(self, group: Sequence[DsmSequence], data: SpeechDataset, rng: Rng | None) -> DsmBatch:
        return collate(group, self._sequencer, *noise_of(self.settings, rng))
