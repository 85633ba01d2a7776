"""Replay traces of every origin: typed into the app, from ``say``, and of a campaign; equal bit for bit or not.

The app speaks several at once, ``say`` at a typing rate, a campaign one after another. A new engine replays all.
"""

import json
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import Progress

from studio.bench.material import options_text, read_texts
from studio.bench.page.browser import own_command, running_app
from studio.bench.robustness.keyboard import MANNERS, Typed, type_to
from studio.bench.robustness.settings import ReplaySetting
from studio.core import speaking
from studio.core.cards import Card
from studio.core.errors import BadOption
from studio.core.ports import Engine, SpeakRequest
from studio.core.time import MonotonicClock
from studio.core.traces.trace import open_trace
from studio.engine.engine import open_engine
from studio.inspection.replay import replay
from studio.measure.report import no_bar, print_table
from studio.mos.campaign.voices import SystemVoice
from studio.mos.stimuli.synthesis import SpeechTask, engine_speaker, speak_all
from studio.text.normalise import best

ORIGINS = ("live", "say", "campaign")

_AT_ONCE = 3  # concurrent utterances of the app
_SAID_WPM = 1000.0
_A_SYSTEM = 4  # texts of each system of a campaign


@dataclass(frozen=True)
class _Made:
    origin: str
    how: str
    path: Path


def bench_replay(setting: ReplaySetting) -> dict[str, Any]:
    """Number of equal replays by origin, and each difference.

    Raises:
        BadOption: fewer traces than origins.
        BadFile, BadVoice, NeedsPackage: missing texts, voices or packages.
        PageFailed, StudioError: the app does not answer, or does not speak.
    """
    if setting.count < len(ORIGINS):
        raise BadOption(f"{setting.count} traces are too few", f"give {len(ORIGINS)} at least, one of each origin")
    texts = read_texts(setting.texts)
    with _folder(setting.kept) as folder, Progress(disable=no_bar(setting.quiet)) as bar:
        shares = [setting.count // 3 + (place < setting.count % 3) for place in range(3)]
        task = bar.add_task("speaking", total=setting.count)
        draw = random.Random(setting.seed)
        with _engine(setting) as engine:
            cards = engine.cards()
            said = [_request(draw, cards) for _ in range(shares[1])]
            systems = [_request(draw, cards) for _ in range(-(-shares[2] // _A_SYSTEM))]
            made = _say(engine, said, texts, folder / "say")
            bar.advance(task, shares[1])
            made += _campaign(engine, systems, texts, shares[2], folder / "campaign")
            bar.advance(task, shares[2])
        typed = [
            Typed(_request(draw, cards), texts[k % len(texts)], MANNERS[k % len(MANNERS)]) for k in range(shares[0])
        ]
        made += _live(setting, typed, folder / "live")
        bar.advance(task, shares[0])
        with _engine(setting) as engine:
            found = [_again(engine, one) for one in bar.track(made, description="again")]
    out: dict[str, Any] = {
        "n": len(found),
        "same": sum(one["is_same"] for one in found),
        "voices": [card.name for card in cards],
        "texts": setting.texts.name,
        "audio_s": sum(one["audio_s"] for one in found),
        "by_origin": {name: _sums([one for one in found if one["origin"] == name]) for name in ORIGINS},
        "different": [one for one in found if not one["is_same"]],
        "made_otherwise": sorted({difference for one in found for difference in one["differences"]}),
        "failures": sum(not one["is_same"] for one in found),
    }
    if not setting.quiet:
        show(out)
    return out


def _request(draw: random.Random, cards: Sequence[Card]) -> SpeakRequest:
    """A random voice, speaker, options within the card's ranges, seed and temperature."""
    card = draw.choice(cards)
    options: dict[str, Any] = {}
    for spec in card.options:
        if spec.kind == "choice":
            options[spec.name] = draw.choice(spec.choices)
        elif spec.kind == "int" and spec.low is not None and spec.high is not None:
            options[spec.name] = draw.randint(int(spec.low), int(spec.high))
    if {"m", "n"} <= options.keys():
        options["n"] = min(options["n"], options["m"])  # the hop is at most the window
    temperature = draw.choice((None, None, 0.0, 0.5))
    return SpeakRequest(f"{card.name}:{draw.choice(card.speakers)}", draw.randrange(2**31), temperature, options)


def _say(engine: Engine, requests: Sequence[SpeakRequest], texts: Sequence[str], folder: Path) -> list[_Made]:
    folder.mkdir()
    made = []
    for number, request in enumerate(requests):
        text = texts[number % len(texts)]
        arrivals = speaking.at_once(text) if number % 2 else speaking.typed(text, _SAID_WPM)
        place = folder / f"{number:03}"
        speaking.speak(engine, request, arrivals, MonotonicClock(), place).unwrap()
        made.append(_Made("say", _named(request), place.with_name(f"{place.name}.trace")))
    return made


def _campaign(
    engine: Engine, systems: Sequence[SpeakRequest], texts: Sequence[str], count: int, folder: Path
) -> list[_Made]:
    sayings = []
    for number, request in enumerate(systems):
        voice, _, speaker = request.voice.partition(":")
        of = SystemVoice(voice, speaker, request.seed, request.temperature, request.options)
        items = range(number * _A_SYSTEM, min(count, (number + 1) * _A_SYSTEM))
        sayings.append(SpeechTask(f"{number} {_named(request)}", of, {f"t{k}": texts[k % len(texts)] for k in items}))
    manifest = json.loads(speak_all(sayings, folder, engine_speaker(engine)).read_text(encoding="utf-8"))
    return [_Made("campaign", one["system"], folder / one["trace"]) for one in manifest["files"]]


def _live(setting: ReplaySetting, typed: Sequence[Typed], folder: Path) -> list[_Made]:
    folder.mkdir()
    command = [*own_command(), "--no-demo", "--voices", str(setting.voices), "--device", setting.device]
    with running_app(command) as url, ThreadPoolExecutor(_AT_ONCE) as typists:

        def one(number: int) -> _Made:
            path = type_to(url, typed[number], folder / f"{number:03}.trace")
            return _Made("live", f"{typed[number].manner} {_named(typed[number].request)}", path)

        return list(typists.map(one, range(len(typed))))


def _again(engine: Engine, made: _Made) -> dict[str, Any]:
    before = open_trace(made.path)
    found = replay(engine, before)
    return {
        "origin": made.origin,
        "how": made.how,
        "trace": made.path.name,
        "is_same": found.is_same and found.samples > 0,
        "samples": found.samples,
        "audio_s": len(before.pcm) / before.rate_hz,
        "first_difference": found.first_difference,
        "is_whole": found.is_whole,
        "differences": list(found.differences),
    }


def _sums(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "n": len(found),
        "same": sum(one["is_same"] for one in found),
        "samples": sum(one["samples"] for one in found),
        "audio_s": sum(one["audio_s"] for one in found),
    }


def _named(request: SpeakRequest) -> str:
    warmth = "" if request.temperature is None else f",temperature={request.temperature:g}"
    return f"{request.voice}?{options_text(request.options)}{warmth}"


@contextmanager
def _engine(setting: ReplaySetting) -> Iterator[Engine]:
    engine = open_engine(setting.voices, best(), setting.device)
    try:
        yield engine
    finally:
        engine.close()


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = kept or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise BadOption(f"{folder} is not empty", "give an empty or new folder")
        yield folder


def show(out: Mapping[str, Any]) -> None:
    """Print the figures, fresh or read back from bench/results."""
    rows: list[list[object]] = [
        [name, one["n"], one["same"], f"{one['samples']:,}", round(one["audio_s"], 1)]
        for name, one in out["by_origin"].items()
    ]
    rows.append(["all", out["n"], out["same"], "", round(out["audio_s"], 1)])
    notes = [f"{one['origin']} {one['how']}: {_why(one)}" for one in out["different"][:10]]
    note = "; ".join([*notes, *out["made_otherwise"]])
    columns = ("made by", "traces", "the same, bit for bit", "samples", "audio s")
    print_table(f"Traces of {', '.join(out['voices'])} replayed", columns, rows, note)


def _why(one: Mapping[str, Any]) -> str:
    if one["first_difference"] is not None:
        return f"sample {one['first_difference']:,} differs"
    return "it is longer or shorter" if one["samples"] else "it has no samples"
