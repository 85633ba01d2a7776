"""A language model answers and a voice speaks: when the first sound comes (paper 001's end-to-end latency, E2E).

The model's pieces of text come again as they came: as a file says, or evenly. What the two need is told apart.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

from studio.bench.material import Desk, Setting, desk, read_texts, written
from studio.core import events as ev
from studio.core.errors import BadFile
from studio.core.files import read_bounded
from studio.core.ports import SpeakRequest
from studio.core.traces.trace import Trace, collect
from studio.measure.latency import ladder, percentiles
from studio.measure.report import print_table, setting_name

# What paper 001's own figures say of its language model (Llama 3.3 70B in four bits): its voice with two words of
# look-ahead waits for the third word, E2E less FCL 173 ms; T5-TTS for all of a sentence of some 16 words, 466 ms.
FIRST_WORD_MS, WORD_MS = 129.0, 22.0
_MAX_BYTES = 4 << 20
_MAX_MS = 600_000.0
_WARM = 2  # replies that are spoken first and not counted
FIGURES = {"e2e_ms": "question to first sound", "llm_ms": "of it: the language model", "first_ms": "of it: the voice"}


@dataclass(frozen=True)
class Reply:
    """What a language model answered: its pieces of text in order, each with when it came, in ms since the question."""

    pieces: tuple[tuple[float, str], ...]


@dataclass(frozen=True, kw_only=True)
class CascadeSetting(Setting):
    """Replies to be spoken.

    Attributes:
        texts: a file of texts, one a line, whose words come evenly; ``arrivals`` a file of replies in their place.
        count: how many replies, from the first.
        first_word_ms, word_ms: when the first word of an even reply comes, and each further one after that before it.
        pause_ms: rest between two replies.
    """

    texts: Path
    arrivals: Path | None = None
    count: int = 20
    first_word_ms: float = FIRST_WORD_MS
    word_ms: float = WORD_MS
    pause_ms: float = 50.0


def evenly(text: str, first_word_ms: float, word_ms: float) -> Reply:
    """A reply whose words come at one pace, each with the space before it, as tokens have it."""
    words = text.split()
    return Reply(tuple((first_word_ms + k * word_ms, " " * bool(k) + word) for k, word in enumerate(words)))


def read_replies(path: Path, count: int | None = None) -> list[Reply]:
    """Replies of a file, one a line: ``{"pieces": [[129, "The"], [151, " rain"], ...]}``, milliseconds and text.

    Raises BadFile where a line is none, times go back, or there are too few.
    """
    try:
        lines = read_bounded(path, _MAX_BYTES).decode("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"the replies {path} cannot be read: {error}", "give a file of JSON lines") from error
    replies = [_reply(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not replies or len(replies) < (count or 0):
        raise BadFile(f"{path} holds {len(replies)} replies", f"{count or 1} are asked for")
    return replies[:count]


def _reply(path: Path, number: int, line: str) -> Reply:
    try:
        pieces = [(float(at_ms), text) for at_ms, text in json.loads(line)["pieces"]]
        said = all(isinstance(text, str) for _, text in pieces) and any(text.strip() for _, text in pieces)
        times = [0.0, *(at_ms for at_ms, _ in pieces), _MAX_MS]
        in_order = all(a <= b for a, b in pairwise(times))
    except (ValueError, TypeError, KeyError, RecursionError):
        said = in_order = False
        pieces = []
    if not said or not in_order:
        raise BadFile(
            f"line {number} of {path} is no reply",
            'write {"pieces": [[129, "The"], [151, " rain"]]}: ms since the question, never back and at most '
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
    with desk(setting) as at:
        each = cascade(at, replies, at.one_setting, setting.pause_ms)
        out = at.about() | came | {"n": len(replies), "setting": written(at.one_setting)}
    out |= {
        name: percentiles([one[name] for one in each]) | {"mean": mean(one[name] for one in each)} for name in FIGURES
    }
    if not setting.quiet:
        show(out)
    return out


def cascade(at: Desk, replies: Sequence[Reply], options: Mapping[str, Any], pause_ms: float) -> list[dict[str, float]]:
    """``FIGURES`` of each reply, in turn by every speaker; nothing else may run meanwhile."""
    each: list[dict[str, float]] = []
    bar = at.progress.add_task("replies", total=len(replies) + _WARM)
    for place, reply in enumerate([*[replies[0]] * _WARM, *replies], -_WARM):
        speaker = at.speakers[place % len(at.speakers)]
        request = SpeakRequest(voice=f"{at.card.name}:{speaker}", seed=at.setting.seed, options=dict(options))
        found = _timed(reply, _heard(at, request, reply))
        if place >= 0:
            each.append(found)
        time.sleep(pause_ms / 1000.0)
        at.progress.advance(bar)
    return each


def _heard(at: Desk, request: SpeakRequest, reply: Reply) -> Trace:
    utterance = at.engine.open(request)
    began_s, first_ms = time.perf_counter(), reply.pieces[0][0]
    for at_ms, text in reply.pieces:
        time.sleep(max(0.0, began_s + (at_ms - first_ms) / 1000.0 - time.perf_counter()))
        utterance.push_text(text)
    utterance.end()
    return collect(utterance.provenance, utterance.events())


def _timed(reply: Reply, trace: Trace) -> dict[str, float]:
    """The clock of the trace, set to 0 at the question: its first text is the first piece."""
    steps, first_ms = ladder(trace), reply.pieces[0][0]
    came_ms = next(one.t_ms for one in trace.events if isinstance(one, ev.Text))
    if steps.t0_ms is None or steps.t2_ms is None:
        raise BadFile("a reply was not spoken: it holds no word", "leave out replies that are only signs")
    llm_ms, e2e_ms = (first_ms + step_ms - came_ms for step_ms in (steps.t0_ms, steps.t2_ms))
    return {"e2e_ms": e2e_ms, "llm_ms": llm_ms, "first_ms": e2e_ms - llm_ms}


def show(out: Mapping[str, Any]) -> None:
    """Print the figures, fresh or read back from bench/results."""
    points = ("mean", "p50", "iqr", "p95")
    rows = [[title, *(round(out[name][point], 1) for point in points), "ms"] for name, title in FIGURES.items()]
    if "arrivals" in out:
        came = f"replies as {out['arrivals']} says they came"
    else:
        came = f"the first word after {out['first_word_ms']:g} ms, then one each {out['word_ms']:g} ms"
    title = f"A language model and {out['voice']}, {out['n']} replies{setting_name(out)}"
    print_table(title, ("", "mean", "p50", "IQR", "p95", ""), rows, f"{came}; the language model itself is not run")
