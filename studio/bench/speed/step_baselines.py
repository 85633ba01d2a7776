"""Baselines of ``studio bench step``: the same rows one at a time, and a stock ``transformers`` loop."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from studio.core import events as ev
from studio.core.options import default_options
from studio.core.time import Clock, MonotonicClock
from studio.engine.request.request import EngineRequest
from studio.engine.scheduler import Scheduler
from studio.engine.voices import Voice
from studio.measure.report import console
from studio.text.normalise import best

_TEXT = 40 * "My sister sold the old brown horse to a farmer who lived across the river. "
_ROUNDS = 3
_LATE_MS = 1e9
_VOCABULARY = 1280  # 80 channels x 16 levels, the width of our heads
NOTE = (
    "random weights of the same sizes; its norms subtract a mean, it does not normalise queries and keys, and it draws "
    "one token where ours draws 80 levels"
)


class LateClock(MonotonicClock):
    """A clock so far ahead that no row has buffered sound left: all rows take part in every step."""

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
    requests = [begin_request(voice, seed, warm * frame_samples) for seed in range(rows)]
    pool = Scheduler(LateClock())
    _run(pool, requests)
    warmed = sum(one.samples for one in requests)
    for one in requests:
        one.grant((warm + frames) * frame_samples)
    began_s = time.perf_counter()
    for group in [requests] if is_together else [[one] for one in requests]:
        _run(pool, group)
    took_ms = 1000.0 * (time.perf_counter() - began_s)
    frame_count = (sum(one.samples for one in requests) - warmed) // frame_samples
    assert frame_count and not any(one.failed for one in requests), "the text is too short"
    for one in requests:
        one.cancel()
    _run(pool, requests)  # frees the slots
    return took_ms / frame_count


def _run(pool: Scheduler, rows: Sequence[EngineRequest]) -> None:
    """Run steps until no row can continue."""
    while pool.step([one for one in rows if not one.done]):
        pass


def begin_request(voice: Voice, seed: int, credit_samples: int, clock: Clock | None = None) -> EngineRequest:
    """An utterance of a long text with credit for ``credit_samples``."""
    card, options = voice.card, default_options(voice.card.options)
    speaker = seed % len(card.speakers)
    about: dict[str, Any] = {"voice": card.name, "speaker": card.speakers[speaker], "family": card.family}
    shape: dict[str, Any] = {"rate_hz": card.sample_rate_hz, "frame_samples": card.frame_samples}
    ready = ev.Ready(utterance=0, **about, **shape, seed=seed, options=options)
    row = voice.open(speaker, options, card.temperature, seed)
    clock = clock or MonotonicClock()
    one = EngineRequest(voice, row, speaker, ready, best(), clock, lambda: None, credit_samples, {})
    one.begin()
    one.push_text(_TEXT)
    one.end()
    return one


def show(out: Mapping[str, Any]) -> None:
    times = f"{out['together_ms']:.2f} ms a frame, one at a time {out['alone_ms']:.2f}"
    gain = f"{out['gain']:.1f}x ({out['gain_low']:.1f} to {out['gain_high']:.1f} of {out['rounds']} rounds)"
    about = "prefills and vocoder included"
    console().print(f"{out['rows']} batched rows: {times}, {about}; gain {gain}", highlight=False)


@dataclass(frozen=True)
class Stock:
    """Sizes of a decoder."""

    layers: int
    width: int
    heads: int
    hidden: int
    device: torch.device

    @classmethod
    def of(cls, voice: Voice) -> "Stock":
        """The sizes of a voice's net."""
        config = voice.card.config
        layers, width, heads, hidden = (int(config[name]) for name in ("layers", "width", "heads", "hidden"))
        return cls(layers, width, heads, hidden, voice.device)


def stock_loop(stock: Stock, contexts: Sequence[int], steps: int) -> dict[str, Any]:
    """Time a token at each context; ``left_out`` gives the reason if that is not possible."""
    if find_spec("transformers") is None:
        return {"left_out": "transformers is not installed: pip install 'streaming-tts-studio[bench]'"}
    import transformers
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, StaticCache

    transformers.logging.set_verbosity_error()
    config = GPTNeoXConfig(
        vocab_size=_VOCABULARY,
        hidden_size=stock.width,
        num_hidden_layers=stock.layers,
        num_attention_heads=stock.heads,
        intermediate_size=stock.hidden,
        hidden_act="relu2",
        max_position_embeddings=4096,
        use_parallel_residual=False,
    )
    with torch.device(stock.device):
        model: Any = GPTNeoXForCausalLM(config).eval()
    runs = []
    for context in contexts:
        ids = torch.randint(_VOCABULARY, (1, context), device=stock.device)

        def generate(count: int, ids: torch.Tensor = ids, context: int = context) -> float:
            cache = StaticCache(config=config, max_cache_len=context + count + 1)
            began_s = time.perf_counter()
            model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                past_key_values=cache,
                do_sample=True,
                min_new_tokens=count,
                max_new_tokens=count,
                pad_token_id=0,
            )
            if stock.device.type == "cuda":
                torch.cuda.synchronize(stock.device)
            return time.perf_counter() - began_s

        generate(2)
        # The difference between a long and a short run excludes the prompt.
        ms = min((generate(steps + 2) - generate(2)) * 1000.0 / steps for _ in range(3))
        runs.append({"context": context, "ms": ms})
    about = {"version": transformers.__version__, "model": "GPTNeoXForCausalLM", "note": NOTE}
    return about | {"parameters": sum(p.numel() for p in model.parameters()), "runs": runs}
