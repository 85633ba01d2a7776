"""How long a frame takes in this code and in an earlier commit's, by turns in one run, on the same weights."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from studio.bench.material import read_texts, written
from studio.bench.speed import spoken_once
from studio.bench.speed.commits import CHECKOUT, commit_of, write_metadata
from studio.core.cards import parse_voice, read_cards
from studio.core.errors import StudioError
from studio.core.options import default_options, merge_options, parse_options
from studio.core.shipped import TEXTS
from studio.measure.report import no_bar, print_table, setting_name

_WARM = 2  # texts that each process speaks first, and that do not count
_NAMES = ("now", "then")


@dataclass(frozen=True, kw_only=True)
class AgainstSetting:
    """What to measure.

    Attributes:
        commit: whose code is measured beside this one.
        voice: name or name:speaker; the first one of the commit unless named.
        voice_from: another commit, whose voices are spoken; empty for the same.
        setting: the family's options, written ``name=value,name=value``.
        rounds: how often all texts are spoken, by new processes each time.
        checkout: of git; its files as they are now are "this code".
    """

    commit: str
    voice: str = ""
    voice_from: str = ""
    setting: str = ""
    texts: Path = TEXTS / "eval.txt"
    count: int = 12
    rounds: int = 3
    checkout: Path = CHECKOUT
    quiet: bool = False


class CannotSpeak(StudioError):
    """A commit's code does not speak."""

    code = "cannot_speak"


def bench_against(setting: AgainstSetting) -> dict[str, Any]:
    """Milliseconds a frame of both in each round, and the ratio: this code's over the commit's.

    A frame has its share of all that an utterance takes from the whole text on: decode, prefills, vocoder; one
    utterance at a time, one thread, on a CPU.

    Raises:
        NeedsPackage: git is not installed.
        BadOption: this is no checkout, there is no such commit, or the voice has no such setting.
        BadVoice: the commit holds no such voice.
        CannotSpeak: one of the two does not speak it.
    """
    then = commit_of(setting.commit, setting.checkout)
    held = commit_of(setting.voice_from, setting.checkout) if setting.voice_from else then
    texts = read_texts(setting.texts, setting.count)
    with tempfile.TemporaryDirectory() as scratch, Progress(disable=no_bar(setting.quiet), transient=True) as progress:
        folder = Path(scratch)
        voices = held.voices(folder / "voices")
        card, speaker = parse_voice(setting.voice, {name: card for name, (card, _) in read_cards(voices).items()})
        options = parse_options(card.options, setting.setting.split(",")) if setting.setting else {}
        merge_options(card.options, options, default_options(card.options))  # is it in range?
        codes = {"now": setting.checkout, "then": then.code(folder / then.short)}
        paths = {name: [code, write_metadata(code, folder / f"about-{name}")] for name, code in codes.items()}
        order = {"voices": str(voices), "voice": f"{card.name}:{speaker}", "options": options}
        bar = progress.add_task("by turns", total=setting.rounds * len(texts))
        rounds = []
        for _ in range(setting.rounds):
            with _speaker(paths["now"], order, folder) as now, _speaker(paths["then"], order, folder) as past:
                rounds.append(_round({"now": now, "then": past}, texts, lambda: progress.advance(bar)))
    ratios = [one["ratio"] for one in rounds]
    out = {
        "voice": card.name,
        "speaker": speaker,
        "sha256": card.sha256,
        "setting": written(options),
        "commit": then.short,
        "voice_from": held.short,
        "texts": setting.texts.name,
        "n": len(texts),
        "rounds": rounds,
        "ratio": {"median": float(np.median(ratios)), "low": min(ratios), "high": max(ratios)},
    }
    if not setting.quiet:
        show(out)
    return out


class _Speaker:
    """A process that speaks texts by the code of a folder; what it says beside that is in ``log``."""

    def __init__(self, process: "subprocess.Popen[str]", code: Path, log: Path) -> None:
        self._process, self._code, self._log = process, code, log
        told = self._answer()["code"]
        assert Path(told).is_relative_to(code.resolve()), f"{told} is not of {code}"

    def say(self, text: str) -> tuple[float, int]:
        """Milliseconds that a text took, and its frames. Raises CannotSpeak."""
        assert self._process.stdin, "a pipe"
        with suppress(BrokenPipeError):  # then it does not answer
            self._process.stdin.write(text + "\n")
            self._process.stdin.flush()
        told = self._answer()
        return told["ms"], told["frames"]

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout, "a pipe"
        line = self._process.stdout.readline()
        if not line:
            said = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            why = said[-1] if said else "it ended and said nothing"
            raise CannotSpeak(
                f"the code in {self._code.name} does not speak it: {why:.300}", "name another voice, setting or commit"
            )
        return json.loads(line)


@contextmanager
def _speaker(paths: Sequence[Path], order: Mapping[str, Any], folder: Path) -> Iterator[_Speaker]:
    """One for as long as the block lasts; its code is in the first of ``paths``."""
    before = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([*map(str, paths), *before]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-P", spoken_once.__file__, json.dumps(order)]
    log = folder / f"{paths[-1].name}.log"
    with log.open("w") as said:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": said}
        process = subprocess.Popen(command, env=environ, text=True, encoding="utf-8", cwd=folder, **pipes)
        try:
            yield _Speaker(process, paths[0], log)
        finally:
            process.kill()
            process.communicate()


def _round(speakers: Mapping[str, _Speaker], texts: Sequence[str], done: Callable[[], None]) -> dict[str, float]:
    """Every text by both, now one first and now the other."""
    for text in texts[:_WARM]:
        for one in speakers.values():
            one.say(text)
    ms, frames = dict.fromkeys(_NAMES, 0.0), dict.fromkeys(_NAMES, 0)
    for place, text in enumerate(texts):
        for name in _NAMES if place % 2 == 0 else _NAMES[::-1]:
            took_ms, made = speakers[name].say(text)
            ms[name], frames[name] = ms[name] + took_ms, frames[name] + made
        done()
    now_ms, then_ms = (ms[name] / max(1, frames[name]) for name in _NAMES)
    counted = {f"{name}_frames": frames[name] for name in _NAMES}
    return {"now_ms": now_ms, "then_ms": then_ms, "ratio": now_ms / then_ms, **counted}


def show(out: Mapping[str, Any]) -> None:
    """Print the figures, fresh or read back from bench/results."""
    rounds, ratio = out["rounds"], out["ratio"]
    rows = [
        [f"round {i}", f"{one['now_ms']:.3f}", f"{one['then_ms']:.3f}", f"{one['ratio']:.3f}"]
        for i, one in enumerate(rounds, 1)
    ]
    medians = [f"{np.median([one[f'{name}_ms'] for one in rounds]):.3f}" for name in _NAMES]
    rows.append(["median", *medians, f"{ratio['median']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f})"])
    about = f"{out['voice']}:{out['speaker']}{setting_name(out)}"
    title = f"A frame of {about}, {out['n']} texts, ms: one utterance, one thread"
    note = (
        f"prefills and vocoder included; both codes speak the weights of {out['voice_from']}; ratio: below 1 is quicker"
    )
    print_table(title, ("", "this code", f"code of {out['commit']}", "ratio"), rows, note)
