"""CPU time of a frame on the host: of the engine's thread with null nets, and of the socket's thread.

A GPU waits for its host: 512 streams are 20,480 frames a second. Rows, requests, scheduler and events are the real
ones; modules and vocoder return at once.
"""

import gc
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from studio.bench.settings import HostSetting, WireSetting
from studio.bench.speed.random_voice import TimedFamily, random_card
from studio.bench.speed.step_baselines import begin_request
from studio.bench.speed.throughput import bench_wire
from studio.core.time import MonotonicClock
from studio.engine.families.common.rows import FrameOutput
from studio.engine.families.speakstream.model import SpeakStream, SpeakStreamConfig
from studio.engine.scheduler import Scheduler
from studio.engine.tokenizers import dmel
from studio.engine.tokenizers.formats import acoustic_tokenizer
from studio.engine.vocoders.module import VocodeModule, build_vocoder
from studio.engine.voices import Voice
from studio.measure.report import print_table

TARGET_US = 25.0  # of both threads together
_WARM_FRAMES = 20


class _CpuClock(MonotonicClock):
    """CPU time of this thread as a clock, so that other programs do not make rows late."""

    def now_ms(self) -> float:
        """CPU time of the thread, ms."""
        return 1000.0 * time.thread_time()


class _NullModule:
    """Returns the same frame for every row, without a net."""

    def __init__(self, max_rows: int, max_frames: int) -> None:
        self.max_rows, self.max_frames = max_rows, max_frames
        self._output = FrameOutput(np.full((1, dmel.CHANNELS), 9, np.uint8), 0.0, True)  # louder than the prompt

    def run(self, slots: Any, rows: Sequence[tuple[int, ...]], inputs: Sequence[Any], frames: int = 1) -> list[Any]:
        """See ``studio.engine.families.base.Module``."""
        if frames == 1:
            return [self._output] * len(rows)
        return [[self._output] * frames for _ in rows]


class _NullVocoder(VocodeModule):
    """Returns silence.

    Attributes:
        runs: chunks vocoded so far, over all rows.
    """

    runs = 0

    def run(self, slots: Any, rows: Sequence[tuple[int, ...]], inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """See ``studio.engine.families.base.Module``."""
        self.runs += len(rows)
        return [np.zeros(len(frames) * dmel.TIME_BASE.frame_samples, np.float32) for frames in inputs]


def bench_host(setting: HostSetting) -> dict[str, Any]:
    """Microseconds of CPU time per frame, by number of rows."""
    gc.collect()
    gc.freeze()  # as the server does
    runs = [_run(rows, setting.frames) for rows in setting.rows]
    for run in runs:  # a packet holds the frames of a chunk
        wire = bench_wire(WireSetting(frames=20_000, chunk=round(run["frames_a_chunk"]), quiet=True))
        run["socket_us"] = 1000.0 * wire["cpu_ms"]["p50"]
    gc.unfreeze()
    return {"frames": setting.frames, "target_us": TARGET_US, "runs": runs}


def _run(rows: int, frames: int) -> dict[str, Any]:
    voice = _null_voice(rows)
    frame_samples = voice.card.frame_samples
    clock, credit = _CpuClock(), (_WARM_FRAMES + frames) * frame_samples
    requests = [begin_request(voice, seed, credit, clock) for seed in range(rows)]
    scheduler, cpu_s = Scheduler(clock), time.thread_time

    def frame_count() -> int:
        return sum(one.samples for one in requests) // frame_samples

    while frame_count() < _WARM_FRAMES * rows:
        scheduler.step(requests)
    warmed, began_s, chunks = frame_count(), cpu_s(), voice.vocode.runs
    while scheduler.step([one for one in requests if not one.done]):
        pass
    took_s, count = cpu_s() - began_s, frame_count() - warmed
    assert count, "no frame was made"
    return {"rows": rows, "engine_us": 1e6 * took_s / count, "frames_a_chunk": count / (voice.vocode.runs - chunks)}


def _null_voice(rows: int) -> Any:
    torch.manual_seed(0)
    card, device = random_card("small", "vocstream-narrow"), torch.device("cpu")
    config = SpeakStreamConfig(1, 16, 1, 16, 2)
    family = TimedFamily(SpeakStream(config), rows, device, capacity_tokens=2048)
    module = _NullModule(rows, 8)
    family.modules = dict.fromkeys(("prefill", "decode"), module)
    narrow = {"upsampler_width": 8, "upsampler_layers": 1, "generator_width": 8, "generator_layers": 1}
    vocoder = build_vocoder("vocstream", {**narrow, "samples_per_step": 10}).eval()
    vocode = _NullVocoder(vocoder, acoustic_tokenizer(card.alphabet), rows, device)
    vocode.max_rows = rows
    return Voice(card, family, vocode, device, [*range(rows)])


def show(out: Mapping[str, Any]) -> None:
    """Print the figures, fresh or read back from bench/results."""
    rows = [
        [
            run["rows"],
            f"{run['engine_us']:.1f}",
            f"{run['socket_us']:.1f}",
            f"{run['engine_us'] + run['socket_us']:.1f}",
            f"{run['frames_a_chunk']:.1f}",
        ]
        for run in out["runs"]
    ]
    columns = ("rows", "engine, us", "socket, us", "both, us", "frames a chunk")
    print_table("CPU time of a frame on the host", columns, rows, f"target: {out['target_us']:.0f} us")
