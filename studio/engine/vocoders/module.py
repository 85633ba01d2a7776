"""How vocoders run: as a module over the slots of many requests, and over the stored frames of a trace.

``revocode_by_segment`` does what systems do whose vocoder keeps no state between chunks (papers 001 and 004), to
compare: each segment is vocoded from silence, together with the last frames of the previous one, over which the two are
cross-faded.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from studio.core import events as ev
from studio.core.cards import Card, has_files
from studio.core.clips import to_int16
from studio.core.errors import BadFile, BadVoice
from studio.core.traces.teacher_forcing import MAX_RECORDING_S, CallerGone, NotSupported
from studio.core.traces.trace import OVERLAPPED, Trace
from studio.engine.nets.cuda.device import Form, form_on
from studio.engine.nets.cuda.graphs import MAX_ROWS, GraphCache, StepRunner, batch_sizes, padded_rows
from studio.engine.nets.linear import use_rowwise_linear
from studio.engine.tokenizers.formats import AcousticTokenizer, acoustic_tokenizer
from studio.engine.vocoders.base import Vocoder, VocoderState
from studio.engine.vocoders.cpu import SourceFilterArrays, cpu_vocoder
from studio.engine.vocoders.mimi import Mimi
from studio.engine.vocoders.mimi_cpu import CpuMimi, MimiArrays
from studio.engine.vocoders.overlapped import FADES, CrossFade, HifiGan
from studio.engine.vocoders.sourcefilter import SourceFilter
from studio.engine.vocoders.sourcevocos import SourceVocos
from studio.engine.vocoders.vocstream import VocStream

if TYPE_CHECKING:
    from studio.engine.vocoders.cuda import CudaVocStream

MAX_CPU_ROWS = 16
MAX_PROMPTED = 64  # speakers whose state is kept; a voice may have 32 of its own


class VocodeModule:
    """Runs a vocoder over slots; see ``studio.engine.families.base.Module``.

    The CPU form has compiled kernels for the source-filter vocoders and Mimi. The CUDA form has kernels for VocStream
    and runs torch steps of the others, as graphs on a GPU; its batches are padded with an unused slot.

    Args:
        form: by default that of the device; the CUDA form also runs on a CPU, in Triton's interpreter.

    Attributes:
        look_ahead_frames: frames that the vocoder needs beyond those it vocodes; 0 in causal ones.
    """

    def __init__(
        self,
        vocoder: Vocoder[Any],
        tokenizer: AcousticTokenizer,
        slots: int,
        device: torch.device,
        *,
        form: Form | None = None,
    ) -> None:
        form = form_on(device, form)
        assert form == "cuda" or device.type == "cpu", "the CPU form runs on a CPU"
        self._kernels = _cuda_kernels(vocoder) if form == "cuda" else None
        on_cpu = None if form == "cuda" else _cpu_form(vocoder)
        if form == "cuda":
            self.max_rows = MAX_ROWS
        else:
            use_rowwise_linear(vocoder)
            self.max_rows = MAX_CPU_ROWS if on_cpu or vocoder.is_batch_invariant else 1
        self.vocoder, self._tokenizer, self._device = vocoder, tokenizer, device
        self._spare = slots if form == "cuda" else None
        self._steps = StepRunner(GraphCache(device))
        self.slots = _init_slots(vocoder, self._kernels, slots if self._spare is None else slots + 1, device)
        self.look_ahead_frames = vocoder.look_ahead_frames
        self._frame_samples = int(vocoder.config.frame_samples)
        self._skip_frames = [self.look_ahead_frames] * slots  # whose samples belong to the prompt or were sent
        self._prompted: dict[bytes, VocoderState] = {}
        self._cpu = None
        if on_cpu is not None:
            compiled, arrays = on_cpu
            frame = self._inputs(np.zeros((1, *tokenizer.frame_shape), tokenizer.dtype)).numpy()
            compiled.step(frame, arrays(vocoder.init_state(1)), np.zeros(1, np.int64))  # before the first utterance
            self._cpu = (compiled, arrays(self.slots))

    def capture_sizes(self) -> list[int]:
        """Batch sizes to ``capture`` before the first utterance; none in the CPU form."""
        return [] if self._spare is None else [*batch_sizes(min(self._spare, self.max_rows))]

    @torch.inference_mode()
    def capture(self, size: int) -> None:
        """Compile and capture the step of one frame of ``size`` rows: causal vocoders take chunks frame by frame."""
        assert self._spare is not None, "the CPU form has nothing to capture"
        frames = torch.from_numpy(np.zeros((size, 1, *self._tokenizer.frame_shape), self._tokenizer.dtype))
        self._run_step(self.slots, torch.full((size,), self._spare), frames)

    @torch.inference_mode()
    def reset(self, slot: int, prompt: np.ndarray, seed: int) -> None:
        """Give a slot to a new owner, in the state after the frames of ``prompt``, which are not played."""
        key = prompt.tobytes()
        prompted = self._prompted.pop(key, None)
        if prompted is None:
            state = self.vocoder.init_state(1, self._device)
            if len(prompt):
                _, state = self.vocoder.step(self._inputs(prompt), state)
            prompted = state if self._kernels is None else self._kernels.to_rings(state)
            if len(self._prompted) >= MAX_PROMPTED:
                del self._prompted[next(iter(self._prompted))]  # the least recently used
        self._prompted[key] = prompted
        self.slots.put(self._index([slot]), prompted)
        self.slots.seed[slot] = seed
        self._skip_frames[slot] = self.look_ahead_frames  # the prompt's own samples come first

    @torch.inference_mode()
    def checkpoint(self, slot: int) -> tuple[VocoderState, int]:
        """A copy of a slot's state."""
        return self.slots.take(self._index([slot])), self._skip_frames[slot]

    @torch.inference_mode()
    def restore(self, slot: int, checkpoint: tuple[VocoderState, int]) -> None:
        """Return a slot to a checkpoint."""
        state, self._skip_frames[slot] = checkpoint
        self.slots.put(self._index([slot]), state)

    @torch.inference_mode()
    def run(
        self, slots: VocoderState, rows: Sequence[tuple[int, ...]], inputs: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Samples float32 [k * frame_samples] of each row's frames [k, ...], k >= 1 and equal for all rows.

        With look-ahead, the samples are of earlier frames, and fewer at an utterance's beginning.
        """
        results = []
        for (slot, *_), samples in zip(rows, self._samples(slots, [row[0] for row in rows], inputs), strict=True):
            skipped = min(self._skip_frames[slot], len(samples) // self._frame_samples)
            self._skip_frames[slot] -= skipped
            results.append(samples[skipped * self._frame_samples :])
        return results

    def _samples(self, slots: VocoderState, numbers: list[int], inputs: Sequence[np.ndarray]) -> np.ndarray:
        if self._cpu is not None:
            vocoder, arrays = self._cpu
            return vocoder.step(self._inputs(*inputs).numpy(), arrays, np.array(numbers))
        index, frames = torch.tensor(numbers), torch.from_numpy(np.stack(inputs))
        if self._spare is not None:
            padding = padded_rows(len(numbers)) - len(numbers)
            index = torch.cat((index, torch.full((padding,), self._spare)))
            frames = torch.cat((frames, frames.new_zeros(padding, *frames.shape[1:])))
        if self.look_ahead_frames:
            return self._run_step(slots, index, frames)[: len(numbers)].numpy()
        parts = [self._run_step(slots, index, one)[: len(numbers)] for one in frames.split(1, 1)]  # as captured
        return torch.cat(parts, 1).numpy()

    def _run_step(self, slots: Any, index: Tensor, frames: Tensor) -> Tensor:
        """Samples [B, k * frame_samples] of frames [B, k, ...] of slots int64 [B]."""

        def dummy() -> list[Tensor]:
            assert self._spare is not None, "steps are captured on a GPU only"
            return [torch.full_like(index, self._spare), torch.zeros_like(frames)]

        def step(index: Tensor, frames: Tensor) -> Tensor:
            given = self._tokenizer.for_vocoder(frames)
            if self._kernels is not None:
                return self._kernels.step(given, slots, index)
            pcm, after = self.vocoder.step(given, slots.take(index))
            slots.put(index, after)
            return pcm.float()

        return self._steps.run(("vocode", id(slots), frames.shape), step, [index, frames], dummy)

    @torch.inference_mode()
    def finish(self, slot: int) -> np.ndarray:
        """Samples that are held back for look-ahead, without a cross-fade; none in a causal vocoder."""
        held = (self.look_ahead_frames - self._skip_frames[slot]) * self._frame_samples
        if not held:
            return np.zeros(0, np.float32)
        self._skip_frames[slot] = self.look_ahead_frames
        return self.vocoder.held_back(self.slots.take(self._index([slot])))[0, -held:].float().cpu().numpy()

    def _inputs(self, *frames: np.ndarray) -> Tensor:
        return self._tokenizer.for_vocoder(torch.from_numpy(np.stack(frames)).to(self._device))

    def _index(self, slots: list[int]) -> Tensor:
        return torch.tensor(slots, device=self._device)


def slot_bytes(vocoder: Vocoder[Any], device: torch.device, form: Form | None = None) -> int:
    """Bytes of a slot's state, to plan memory before slots are allocated."""
    kernels = _cuda_kernels(vocoder) if (form_on(device, form)) == "cuda" else None
    return sum(leaf.nbytes for leaf in _init_slots(vocoder, kernels, 1, device).leaves())


def _cpu_form(vocoder: Vocoder[Any]) -> tuple[Any, Callable[[Any], Any]] | None:
    """The CPU form of a vocoder, and what makes arrays of its slots; None for those that torch runs."""
    if isinstance(vocoder, Mimi):
        return CpuMimi(vocoder), MimiArrays
    on_cpu = cpu_vocoder(vocoder)
    return None if on_cpu is None else (on_cpu, SourceFilterArrays)


def _cuda_kernels(vocoder: Vocoder[Any]) -> "CudaVocStream | None":
    """The CUDA form of a trained vocoder; None for those that torch runs."""
    if not isinstance(vocoder, VocStream):
        return None
    from studio.engine.vocoders import cuda

    return cuda.CudaVocStream(vocoder) if cuda.supports(vocoder.config) else None


def _init_slots(
    vocoder: Vocoder[Any], kernels: "CudaVocStream | None", slots: int, device: torch.device
) -> VocoderState:
    return vocoder.init_state(slots, device) if kernels is None else kernels.init_rings(slots)


VOCODERS: dict[str, type[Vocoder[Any]]] = {
    kind.name: kind for kind in (HifiGan, Mimi, SourceFilter, SourceVocos, VocStream)
}


def vocoder_kind(name: str) -> type[Vocoder[Any]]:
    """The class of a vocoder by its name on a card. Raises BadVoice."""
    if name not in VOCODERS:
        raise BadVoice(f"there is no vocoder {name!r}", f"there are {', '.join(sorted(VOCODERS))}")
    return VOCODERS[name]


def build_vocoder(name: str, config: Mapping[str, Any]) -> Vocoder[Any]:
    """A vocoder by its name on a card, with fresh weights. Raises BadVoice: unknown name or configuration."""
    return vocoder_kind(name).from_config(config)


EQUAL_POWER = FADES["equal-power"]


@torch.inference_mode()
def vocode_streaming(vocoder: Vocoder[Any], log_mels: torch.Tensor, seed: int = 0) -> np.ndarray:
    """Vocode frames [F, C] one at a time, from silence: float32 [T]."""
    device = next(vocoder.parameters()).device
    state = vocoder.init_state(1, device, seed)
    pieces = [np.zeros(0, np.float32)]
    for frame in log_mels.to(device).unsqueeze(0).split(1, dim=1):
        pcm, state = vocoder.step(frame, state)
        pieces.append(pcm[0].float().cpu().numpy())
    return np.concatenate(pieces)


def vocode_by_segment(
    vocoder: Vocoder[Any],
    log_mels: torch.Tensor,
    spans: Iterable[tuple[int, int]],
    seed: int = 0,
    fade: CrossFade = EQUAL_POWER,
) -> np.ndarray:
    """Vocode each span of frames [F, C] by itself, and cross-fade: int16 [T].

    Args:
        spans: consecutive [first, end); empty ones are skipped.
    """
    samples = vocoder.config.frame_samples
    out = np.zeros(0, np.float32)
    for first, end in spans:
        if end <= first:
            continue
        before = min(fade.frames, first)
        chunk = vocode_streaming(vocoder, log_mels[first - before : end], seed)
        overlap = before * samples
        if overlap:
            rise, fall = (side.numpy() for side in fade.curve(overlap))
            out[-overlap:] = out[-overlap:] * fall + chunk[:overlap] * rise
        out = np.concatenate([out, chunk[overlap:]])
    return to_int16(out)


def segment_spans(trace: Trace, frame_samples: int) -> list[tuple[int, int]]:
    """The frames [first, end) of each segment."""
    count = len(trace.frames)
    return [(min(one.start // frame_samples, count), min(one.end // frame_samples, count)) for one in trace.segments()]


def revocode_by_segment(
    card: Card, vocoder: Vocoder[Any], fade: CrossFade, trace: Trace, should_continue: Callable[[], bool]
) -> Trace:
    """A trace whose frames are vocoded segment by segment.

    See ``studio.core.traces.teacher_forcing.SupportsOverlappedVocoding``, also for the errors.
    """
    if not trace.is_spoken or not len(trace.frames) or not trace.segments():
        raise BadFile("this utterance holds no frames that a voice has spoken", "give one that a voice has spoken")
    length_s = len(trace.pcm) / trace.rate_hz
    if length_s > MAX_RECORDING_S:
        raise BadFile(f"{length_s:.0f} s of sound are too long for this", f"give at most {MAX_RECORDING_S:.0f} s")
    if not has_files(card, trace.meta.get("checkpoint_sha256", {})):
        raise BadVoice(f"the weights of {card.name} have changed since this was made", "speak the text again")
    if vocoder.look_ahead_frames:
        raise NotSupported(f"the vocoder of {card.name} is overlapped already", "compare it with another voice")
    tokenizer = acoustic_tokenizer(card.alphabet)
    if tokenizer.to_mels is None:
        raise NotSupported(f"the frames of {card.name} are codes, which traces do not hold", "compare other voices")
    if trace.frames.shape[1:] != tokenizer.frame_shape:
        raise BadFile("the frames are of another acoustic tokenizer than the voice's", "the trace is damaged")
    mels = tokenizer.to_mels(torch.from_numpy(np.array(trace.frames)))

    def spans() -> Iterator[tuple[int, int]]:
        for span in segment_spans(trace, card.frame_samples):
            if not should_continue():
                raise CallerGone("the client is gone")
            yield span

    vocoded = vocode_by_segment(vocoder, mels, spans(), int(trace.meta.get("seed", 0)), fade)
    pcm = np.zeros_like(trace.pcm)
    pcm[: len(vocoded)] = vocoded[: len(pcm)]
    meta = {**trace.meta, "source": OVERLAPPED, "vocoder": f"{trace.meta.get('vocoder', card.vocoder)}, overlapped"}
    events = [_with_arrays(one, pcm, trace.frames) for one in trace.events]
    return Trace(meta, events, pcm, trace.frames, trace.p_eos, dict(trace.layers))


def _with_arrays(event: ev.Event, pcm: np.ndarray, frames: np.ndarray) -> ev.Event:
    if isinstance(event, ev.Audio):
        return replace(event, pcm=pcm[event.sample : event.sample + len(event.pcm)])
    if isinstance(event, ev.Frames):
        return replace(event, levels=frames[event.first_frame : event.first_frame + len(event.p_eos)])
    return event
