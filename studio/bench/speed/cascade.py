"""End-to-end latency of a language model and a voice (E2E of paper 001).

The model's tokens are replayed from a file or at an even rate. The shares of the two are reported separately.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

from studio.bench.material import EvaluationRun, evaluation_run, options_text, read_texts
from studio.bench.settings import CascadeSetting
from studio.core import events as ev
from studio.core.errors import BadFile, bad_file
from studio.core.files import read_bounded
from studio.core.ports import SpeakRequest
from studio.core.traces.trace import Trace, collect_trace
from studio.measure.latency import ladder, percentiles
from studio.measure.report import print_table, setting_name

# From paper 001 (Llama 3.3 70B, 4 bits): E2E minus FCL is 173 ms for look-ahead 2, which waits for the third word, and
# 466 ms for T5-TTS, which waits for a sentence of about 16 words.
FIRST_WORD_MS, WORD_MS = 129.0, 22.0
_MAX_BYTES = 4 << 20
_MAX_MS = 600_000.0
_WARM = 2  # warm-up replies, not counted
FIGURES = {
    "e2e_ms": "question to first sound",
    "llm_ms": "of which: the language model",
    "first_ms": "of which: the voice",
}


@dataclass(frozen=True)
class Reply:
    """A language model's reply: pieces of text with their arrival times, ms since the question."""

    pieces: tuple[tuple[float, str], ...]


def evenly(text: str, first_word_ms: float, word_ms: float) -> Reply:
    """A reply whose words arrive at an even rate, each with the space before it, like tokens."""
    words = text.split()
    return Reply(tuple((first_word_ms + k * word_ms, " " * bool(k) + word) for k, word in enumerate(words)))


def read_replies(path: Path, count: int | None = None) -> list[Reply]:
    """Replies of a file, one a line: ``{"pieces": [[129, "The"], [151, " rain"], ...]}``, milliseconds and text.

    Raises BadFile for invalid lines, decreasing times, or too few replies.
    """
    with bad_file(f"the replies {path} cannot be read", "give a file of JSON lines", UnicodeDecodeError):
        lines = read_bounded(path, _MAX_BYTES).decode("utf-8").split("\n")
    replies = [_reply(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not replies or len(replies) < (count or 0):
        raise BadFile(f"{path} holds {len(replies)} replies", f"{count or 1} are asked for")
    return replies[:count]


def _reply(path: Path, number: int, line: str) -> Reply:
    try:
        pieces = [(float(at_ms), text) for at_ms, text in json.loads(line)["pieces"]]
        has_text = all(isinstance(text, str) for _, text in pieces) and any(text.strip() for _, text in pieces)
        times = [0.0, *(at_ms for at_ms, _ in pieces), _MAX_MS]
        in_order = all(a <= b for a, b in pairwise(times))
    except (ValueError, TypeError, KeyError, RecursionError):
        has_text = in_order = False
        pieces = []
    if not has_text or not in_order:
        raise BadFile(
            f"line {number} of {path} is not a reply",
            'write {"pieces": [[129, "The"], [151, " rain"]]}: ms since the question, not decreasing and at most '
            f"{_MAX_MS:,.0f}, and text",
        )
    return Reply(tuple(pieces))


def bench_cascade(setting: CascadeSetting) -> dict[str, Any]:
    """Percentiles of ``FIGURES`` over all replies. Raises BadFile, BadOption."""
    if setting.arrivals is None:
        pace = (setting.first_word_ms, setting.word_ms)
        replies = [evenly(text, *pace) for text in read_texts(setting.texts, setting.count)]
        came: dict[str, Any] = {"texts": setting.texts.name, "first_word_ms": pace[0], "word_ms": pace[1]}
    else:
        replies = read_replies(setting.arrivals, setting.count)
        came = {"arrivals": setting.arrivals.name}
    with evaluation_run(setting) as at:
        each = cascade(at, replies, at.one_setting, setting.pause_ms)
        out = at.about() | came | {"n": len(replies), "setting": options_text(at.one_setting)}
    out |= {
        name: percentiles([one[name] for one in each]) | {"mean": mean(one[name] for one in each)} for name in FIGURES
    }
    return out


def cascade(
    at: EvaluationRun, replies: Sequence[Reply], options: Mapping[str, Any], pause_ms: float
) -> list[dict[str, float]]:
    """``FIGURES`` of each reply, by alternating speakers, on an otherwise idle machine."""
    each: list[dict[str, float]] = []
    bar = at.progress.add_task("replies", total=len(replies) + _WARM)
    for number, reply in enumerate([*[replies[0]] * _WARM, *replies], -_WARM):
        speaker = at.speakers[number % len(at.speakers)]
        request = SpeakRequest(voice=f"{at.card.name}:{speaker}", seed=at.setting.seed, options=dict(options))
        times = _timed(reply, _speak(at, request, reply))
        if number >= 0:
            each.append(times)
        time.sleep(pause_ms / 1000.0)
        at.progress.advance(bar)
    return each


def _speak(at: EvaluationRun, request: SpeakRequest, reply: Reply) -> Trace:
    utterance = at.engine.open(request)
    began_s, first_ms = time.perf_counter(), reply.pieces[0][0]
    for at_ms, text in reply.pieces:
        time.sleep(max(0.0, began_s + (at_ms - first_ms) / 1000.0 - time.perf_counter()))
        utterance.push_text(text)
    utterance.end()
    return collect_trace(utterance.provenance, utterance.events())


def _timed(reply: Reply, trace: Trace) -> dict[str, float]:
    """Figures of a trace with times since the question; its first text is the first piece."""
    steps, first_ms = ladder(trace), reply.pieces[0][0]
    came_ms = next(one.t_ms for one in trace.events if isinstance(one, ev.TextReceived))
    if steps.t0_ms is None or steps.t2_ms is None:
        raise BadFile("a reply has no words, so that nothing was spoken", "leave out replies of punctuation only")
    llm_ms, e2e_ms = (first_ms + step_ms - came_ms for step_ms in (steps.t0_ms, steps.t2_ms))
    return {"e2e_ms": e2e_ms, "llm_ms": llm_ms, "first_ms": e2e_ms - llm_ms}


def show(out: Mapping[str, Any]) -> None:
    points = ("mean", "p50", "iqr", "p95")
    rows = [[title, *(round(out[name][point], 1) for point in points), "ms"] for name, title in FIGURES.items()]
    if "arrivals" in out:
        came = f"replies of {out['arrivals']}"
    else:
        came = f"the first word after {out['first_word_ms']:g} ms, then one each {out['word_ms']:g} ms"
    title = f"A language model and {out['voice']}, {out['n']} replies{setting_name(out)}"
    print_table(title, ("", "mean", "p50", "IQR", "p95", ""), rows, f"{came}; the language model itself is not run")
