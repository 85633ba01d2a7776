"""Rows through the pool together, against the same rows one at a time, in one run: decode, prefills and vocoder."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from studio.core import events as ev
from studio.core.options import default_options
from studio.core.time import MonotonicClock
from studio.engine.hosting.pool import Pool
from studio.engine.utterances.local import LocalUtterance
from studio.engine.voices import Voice
from studio.measure.report import console
from studio.text.normalise import best

_TEXT = 40 * "My sister sold the old brown horse to a farmer who lived across the river. "
_ROUNDS = 3
_LATE_MS = 1e9


class _Late(MonotonicClock):
    """A clock by which nobody has sound left: all take part in every turn, as where a machine has no time to spare."""

    def now_ms(self) -> float:
        """Milliseconds since some fixed moment."""
        return super().now_ms() + _LATE_MS


def bench_pool(voice: Voice, rows: int, frames: int, warm: int) -> dict[str, Any]:
    """Milliseconds a frame both ways, and how many times quicker it goes together: the median of rounds by turns.

    Args:
        frames: of each row, timed, after ``warm`` that are not.
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
    """Of the rows' next frames, all at once or one row after the other; rows and frames are the same either way."""
    frame_samples = voice.card.frame_samples
    everybody = [_begun(voice, seed, warm * frame_samples) for seed in range(rows)]
    pool = Pool(_Late())
    _run(pool, everybody)
    warmed = sum(one.samples for one in everybody)
    for one in everybody:
        one.grant((warm + frames) * frame_samples)
    began_s = time.perf_counter()
    for group in [everybody] if is_together else [[one] for one in everybody]:
        _run(pool, group)
    took_ms = 1000.0 * (time.perf_counter() - began_s)
    made = (sum(one.samples for one in everybody) - warmed) // frame_samples
    assert made and not any(one.failed for one in everybody), "the text is long enough"
    for one in everybody:
        one.cancel()
    _run(pool, everybody)  # which gives the slots back
    return took_ms / made


def _run(pool: Pool, rows: Sequence[LocalUtterance]) -> None:
    """Turns until nobody may go on."""
    while pool.turn([one for one in rows if not one.done]):
        pass


def _begun(voice: Voice, seed: int, credit_samples: int) -> LocalUtterance:
    card, options = voice.card, default_options(voice.card.options)
    speaker = seed % len(card.speakers)
    about: dict[str, Any] = {"voice": card.name, "speaker": card.speakers[speaker], "family": card.family}
    shape: dict[str, Any] = {"rate_hz": card.sample_rate_hz, "frame_samples": card.frame_samples}
    ready = ev.Ready(utterance=0, **about, **shape, seed=seed, options=options)
    row = voice.open(speaker, options, card.temperature, seed)
    one = LocalUtterance(voice, row, ready, best(), MonotonicClock(), lambda: None, credit_samples, {})
    one.begin()
    one.push_text(_TEXT)
    one.end()
    return one


def show(out: Mapping[str, Any]) -> None:
    """Print the figures, fresh or read back from bench/results."""
    times = f"{out['together_ms']:.2f} ms a frame, one at a time {out['alone_ms']:.2f}"
    gain = f"{out['gain']:.1f}x ({out['gain_low']:.1f} to {out['gain_high']:.1f} of {out['rounds']} rounds)"
    about = "prefills and vocoder included"
    console().print(f"{out['rows']} rows through the pool: {times}, {about}; gain {gain}", highlight=False)
