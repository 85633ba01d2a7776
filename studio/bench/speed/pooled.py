"""Batched rows against the same rows one at a time, in one run: decode, prefill and vocoder."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from studio.core import events as ev
from studio.core.options import default_options
from studio.core.time import MonotonicClock
from studio.engine.request.request import EngineRequest
from studio.engine.scheduler import Scheduler
from studio.engine.voices import Voice
from studio.measure.report import console
from studio.text.normalise import best

_TEXT = 40 * "My sister sold the old brown horse to a farmer who lived across the river. "
_ROUNDS = 3
_LATE_MS = 1e9


class _Late(MonotonicClock):
    """A clock that is so late that no row has sound left, so that all take part in every step."""

    def now_ms(self) -> float:
        """Milliseconds since a fixed moment."""
        return super().now_ms() + _LATE_MS


def bench_pool(voice: Voice, rows: int, frames: int, warm: int) -> dict[str, Any]:
    """Milliseconds per frame both ways, and the gain of batching: medians over alternating rounds.

    Args:
        frames: timed frames of each row, after ``warm`` untimed ones.
    """
    together, alone = [], []
    for _ in range(_ROUNDS):
        together.append(_ms_a_frame(voice, rows, frames, warm, is_together=True))
        alone.append(_ms_a_frame(voice, rows, frames, warm, is_together=False))
    gains = np.array(alone) / np.array(together)
    return {
        "rows": rows,
        "frames": frames,
        "rounds": _ROUNDS,
        "together_ms": float(np.median(together)),
        "alone_ms": float(np.median(alone)),
        "gain": float(np.median(gains)),
        "gain_low": float(gains.min()),
        "gain_high": float(gains.max()),
    }


def _ms_a_frame(voice: Voice, rows: int, frames: int, warm: int, *, is_together: bool) -> float:
    """Time the next frames of the same rows, batched or one row after another."""
    frame_samples = voice.card.frame_samples
    everybody = [_begun(voice, seed, warm * frame_samples) for seed in range(rows)]
    pool = Scheduler(_Late())
    _run(pool, everybody)
    warmed = sum(one.samples for one in everybody)
    for one in everybody:
        one.grant((warm + frames) * frame_samples)
    began_s = time.perf_counter()
    for group in [everybody] if is_together else [[one] for one in everybody]:
        _run(pool, group)
    took_ms = 1000.0 * (time.perf_counter() - began_s)
    made = (sum(one.samples for one in everybody) - warmed) // frame_samples
    assert made and not any(one.failed for one in everybody), "the text is too short"
    for one in everybody:
        one.cancel()
    _run(pool, everybody)  # frees the slots
    return took_ms / made


def _run(pool: Scheduler, rows: Sequence[EngineRequest]) -> None:
    """Run steps until no row can continue."""
    while pool.step([one for one in rows if not one.done]):
        pass


def _begun(voice: Voice, seed: int, credit_samples: int) -> EngineRequest:
    card, options = voice.card, default_options(voice.card.options)
    speaker = seed % len(card.speakers)
    about: dict[str, Any] = {"voice": card.name, "speaker": card.speakers[speaker], "family": card.family}
    shape: dict[str, Any] = {"rate_hz": card.sample_rate_hz, "frame_samples": card.frame_samples}
    ready = ev.Ready(utterance=0, **about, **shape, seed=seed, options=options)
    row = voice.open(speaker, options, card.temperature, seed)
    one = EngineRequest(voice, row, ready, best(), MonotonicClock(), lambda: None, credit_samples, {})
    one.begin()
    one.push_text(_TEXT)
    one.end()
    return one


def show(out: Mapping[str, Any]) -> None:
    """Print the figures, fresh or read back from bench/results."""
    times = f"{out['together_ms']:.2f} ms a frame, one at a time {out['alone_ms']:.2f}"
    gain = f"{out['gain']:.1f}x ({out['gain_low']:.1f} to {out['gain_high']:.1f} of {out['rounds']} rounds)"
    about = "prefills and vocoder included"
    console().print(f"{out['rows']} batched rows: {times}, {about}; gain {gain}", highlight=False)
