"""Teacher forcing of S5-TTS."""

import numpy as np
import torch
from torch import Tensor

from studio.core.events import EOS_AT, Event
from studio.engine.families.base import RowOutput
from studio.engine.families.common.rows import sigmoid
from studio.engine.families.common.teacher_forcing import (
    TeacherForcedSegment,
    TeacherForcingInput,
    TeacherForcingRun,
    sum_by_word,
)
from studio.engine.families.s5.model import S5, decoder_mask, encode_input
from studio.engine.families.s5.policy import S5Output, S5Plan, S5StepInput
from studio.engine.families.s5.row import S5Row
from studio.engine.nets.sampling import log_likelihood
from studio.engine.nets.transformer import ReferenceDecoder

ATTENDS_TO = "cross-attention to the phonemes of each word that the step saw"


class ReferenceS5:
    """The net of S5-TTS or T5-TTS on given frames, with its attention.

    Attributes:
        longest_word_frames: of its configuration.
    """

    def __init__(self, net: S5, speaker: int) -> None:
        self._net, self._device = net, next(net.parameters()).device
        self._speaker = torch.tensor([speaker], device=self._device)
        self._decoder = ReferenceDecoder(net.decoder)
        self._run_frames = 0
        self.longest_word_frames = net.config.longest_word_frames

    def run(self, fed: S5StepInput, frames: np.ndarray) -> tuple[Tensor, Tensor, np.ndarray]:
        """Run a step's input and n frames, uint8 [n, 80].

        Returns:
            After the input and after each frame: logits [n + 1, 80, 16], stop logits [n + 1], and the attention to
            the step's symbols [L, n + 1, T].
        """
        net, device = self._net, self._device
        if fed.start > self._decoder.start:
            self._decoder.forget(fed.start)
        self._decoder.cut(fed.at)
        k = torch.tensor([fed.k], device=device)
        encoded = encode_input(net, fed, device)
        x = net.embed_frames(torch.from_numpy(np.concatenate((fed.frames, frames))).to(device))
        if fed.begins:
            x = torch.cat((net.bos.unsqueeze(0), x))
        x = x + net.embed_row(self._speaker, k)
        allowed = torch.ones(1, len(x), len(fed.symbols), dtype=torch.bool, device=device)
        if (mask := decoder_mask(net, fed, device)) is not None:
            allowed[:, : fed.tokens] = mask
        by_layer: list[Tensor] = []
        crossings = net.crossings()

        def between(layer: int, h: Tensor) -> Tensor:
            h, shares = crossings[layer](h, encoded, allowed)
            by_layer.append(shares[0])
            return h

        hidden, _ = self._decoder.extend(x, between)
        self._run_frames = len(frames)
        shares = torch.stack(by_layer)[:, fed.tokens - 1 :].float().cpu().numpy()
        return *net.heads(hidden[fed.tokens - 1 :]), shares

    def log_likelihood(self, logits: Tensor, frames: np.ndarray) -> np.ndarray:
        """The log-likelihood of each frame under the logits of ``run``, float32 [n]."""
        return log_likelihood(logits[:-1], torch.from_numpy(frames.copy()).to(self._device)).cpu().numpy()

    def accept(self, count: int) -> None:
        """Keep the first ``count`` frames of the last run and drop the rest."""
        self._decoder.cut(self._decoder.length - (self._run_frames - count))


class S5TeacherForcing(TeacherForcingRun):
    """See ``TeacherForcingRun``; the row limits the context as in synthesis."""

    def __init__(self, net: S5, row: S5Row, recording: TeacherForcingInput) -> None:
        super().__init__(row, recording)
        self._row, self._net = row, ReferenceS5(net, recording.speaker)

    @torch.inference_mode()
    def _segment(self, first: int, fed: S5StepInput) -> TeacherForcedSegment:
        assert isinstance(fed, S5StepInput), "a step begins with its text"
        plan = self._row.planned
        frames, stop = self._planned_frames(first, plan.speak, self._net.longest_word_frames)
        logits, stops, shares = self._net.run(fed, frames)
        words = np.array(fed.words) + plan.stop + plan.close - 1 - fed.words[-1]  # a reference's words are below 0
        if plan.close:
            p_stop = np.array([sigmoid(one) for one in stops[1:].float().cpu().numpy()], np.float64)
            p_eos = 1.0 - np.cumprod(1.0 - p_stop)  # as ``S5StepState.stop_probability``
            ended = p_eos >= EOS_AT
        else:
            after = shares.mean(0)[1:]
            p_eos = after[:, words >= plan.speak.stop].sum(1)
            ended = words[after.argmax(1)] >= plan.speak.stop  # c_s^i (``policy.is_complete``)
        count = len(frames) if stop is not None else self._end(ended, first)
        likelihood = self._net.log_likelihood(logits, frames)[:count]
        self._net.accept(count)
        forced = not bool(ended[count - 1])
        events = self._replay(frames[:count], shares.mean(0), plan)
        if forced and count == self._net.longest_word_frames * len(plan.speak):  # synthesis would cut it here
            self._row.restart_context()
        seen = range(plan.speak.start, plan.stop)
        by_layer = sum_by_word(shares[:, :count], words, seen)
        return self._result(first, seen.start, by_layer, p_eos[:count], likelihood, events, forced=forced)

    def _replay(self, frames: np.ndarray, shares: np.ndarray, plan: S5Plan) -> list[Event]:
        """The row's events for a step of these frames; ``shares`` [n + 1, T] of the net."""

        def step(frame: np.ndarray, k: int, *, is_over: bool) -> RowOutput:
            self._row.next_input()
            attended = shares[k]
            if not plan.close:  # the row tests where most attention is: on the first word, or beyond the spoken one
                attended = np.zeros_like(attended)
                attended[-1 if is_over else 0] = 1.0
            return self._row.on_output(S5Output(frame[None], float(is_over), attended, True))

        events: list[Event] = [*step(frames[0], 0, is_over=False).before]
        for k, frame in enumerate(frames[1:], start=1):
            events += step(frame, k, is_over=False).after
        return [*events, *step(frames[0], len(frames), is_over=True).after]
