"""Replay traces of every origin: typed into the app, from ``say``, and of a campaign; equal bit for bit or not.

The app speaks several at once, ``say`` at a typing rate, a campaign one after another. A new engine replays all.
"""

import json
import random
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rich.progress import Progress

from studio.bench.durability import ReplaySetting
from studio.bench.material import options_text, read_texts
from studio.bench.page.browser import own_command, running_app
from studio.core import speaking
from studio.core.cards import Card
from studio.core.errors import BadOption, StudioError
from studio.core.ports import Engine, SpeakRequest
from studio.core.time import MonotonicClock
from studio.core.traces.trace import open_trace
from studio.engine.engine import open_engine
from studio.inspection.replay import replay
from studio.measure.report import no_bar
from studio.mos.campaign.voices import SystemVoice
from studio.mos.stimuli.speech import SpeechTask, engine_speaker, speak_all
from studio.text.normalise import best

Manner = Literal["keys", "mistakes", "pause", "flush", "paste", "pieces", "stop"]
MANNERS: tuple[Manner, ...] = ("keys", "mistakes", "pause", "flush", "paste", "pieces", "stop")

_KEY_S = 0.012
_PAUSE_S = 1.0  # longer than the 700 ms after which the server flushes
_STOP_AT_SAMPLES = 24_000
_LISTEN_S = 120.0
ORIGINS = ("live", "say", "campaign")

_AT_ONCE = 3  # concurrent utterances of the app
_SAID_WPM = 1000.0
_A_SYSTEM = 4  # texts of each system of a campaign


@dataclass(frozen=True)
class Typed:
    """A typed text and the way of typing.

    Attributes:
        manner: ``keys`` one by one; ``mistakes`` with corrections; a ``pause`` of a second or a ``flush`` after half of
            the words; ``paste`` all at once; ``pieces`` as a program streams them; ``stop`` during the speech.
    """

    request: SpeakRequest
    text: str
    manner: Manner


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
    with _folder(setting.keep_folder) as folder, Progress(disable=no_bar(setting.quiet)) as bar:
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


def type_to(url: str, typed: Typed, place: Path) -> Path:
    """Speak a text through the app at ``url``, and save its trace to ``place``.

    Raises:
        StudioError: the app did not speak.
    """
    from websockets.sync.client import connect

    with connect(url.replace("http", "ws", 1) + "ws/speak", max_size=None) as socket:

        def send(kind: str, **fields: Any) -> None:
            socket.send(json.dumps({"type": kind, "utterance": 1, **fields}))

        request = typed.request
        send(
            "open",
            voice=request.voice,
            seed=request.seed,
            temperature=request.temperature,
            options=dict(request.options),
            source="stream" if typed.manner == "pieces" else "keyboard",
            credit_ms=60_000,
        )
        for pause_s, kind, fields in _messages(typed):
            time.sleep(pause_s)
            send(kind, **fields)
        address = _listen(socket, send, stops=typed.manner == "stop")
    with urllib.request.urlopen(url + address, timeout=_LISTEN_S) as answer:
        place.write_bytes(answer.read())
    return place


def _messages(typed: Typed) -> Iterator[tuple[float, str, Mapping[str, Any]]]:
    """Messages with their times in seconds."""
    text = typed.text
    middle = text.find(" ", len(text) // 2) + 1
    if typed.manner == "pieces":
        for at in range(0, len(text), 7):
            yield _KEY_S, "text", {"text": text[at : at + 7]}
    elif typed.manner == "paste":
        yield 0.0, "edit", _insert(0, text)
    else:
        for at, letter in enumerate(text):
            if typed.manner == "mistakes" and letter.isalpha() and at % 9 == 4:
                yield _KEY_S, "edit", _insert(at, "q")
                yield _KEY_S, "edit", {"at": at, "remove": 1, "insert": ""}
            if typed.manner == "flush" and at == middle:
                yield _KEY_S, "flush", {}
            is_late = typed.manner == "pause" and at == middle
            yield _PAUSE_S if is_late else _KEY_S, "edit", _insert(at, letter)
    yield _KEY_S, "end", {}


def _insert(at: int, text: str) -> dict[str, Any]:
    return {"at": at, "remove": 0, "insert": text}


def _listen(socket: Any, send: Callable[..., None], *, stops: bool) -> str:
    """Play the utterance to its end with playback reports, as a page does; returns the address of its trace."""
    heard = 0
    is_over = False
    while True:
        message = socket.recv(timeout=_LISTEN_S)
        if isinstance(message, bytes):
            heard = int.from_bytes(message[16:24], "little") + (len(message) - 24) // 2
            if stops and heard >= _STOP_AT_SAMPLES and not is_over:
                send("cancel", played_sample=heard)
                is_over = True
            elif not is_over:
                send("played", sample=heard)
            continue
        event = json.loads(message)
        if event["type"] in ("error", "failed"):
            raise StudioError(f"the app did not speak: {event['message']}")
        is_over = is_over or event["type"] == "ended"
        if event["type"] == "trace":
            return event["trace_url"]
