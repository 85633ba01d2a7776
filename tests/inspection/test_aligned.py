"""Word times of systems that send none, by the aligner."""

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from systems.speaking import shell, spoken

from studio.core.clips import write_wav
from studio.core.sound_files import read_mono
from studio.core.traces.trace import Trace
from studio.inspection.timing import with_aligned_words

WORDS = "good morning to you my friend"
PAUSE_S = 1.5


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentence with a long pause after its second word."""
    folder = tmp_path_factory.mktemp("sound")
    parts = []
    for k, text in enumerate(("good morning", "to you my friend")):
        subprocess.run(["flite", "-voice", "slt", "-t", text, "-o", str(folder / f"{k}.wav")], check=True)
        parts.append(read_mono(folder / f"{k}.wav"))
    (first, rate_hz), (second, _) = parts
    pcm = np.concatenate([first, np.zeros(round(PAUSE_S * rate_hz), np.int16), second])
    write_wav(folder / "a.wav", pcm, rate_hz)
    return folder


def in_pause(trace: Trace, sound: Path) -> list[str]:
    """Words whose middle is in the pause."""
    first, rate_hz = read_mono(sound / "0.wav")
    start_s = len(first) / rate_hz
    middles = [(one.text, (one.start + one.end) / 2.0 / trace.rate_hz) for one in trace.words()]
    return [text for text, at_s in middles if start_s < at_s < start_s + PAUSE_S]


def test_words_leave_a_pause_and_stay_estimates(sound: Path) -> None:
    trace = spoken(shell(f"cat {sound / 'a.wav'}"), WORDS)
    assert in_pause(trace, sound)
    better = with_aligned_words(trace)
    assert not in_pause(better, sound)
    words = better.words()
    assert [one.text for one in words] == WORDS.split() and {one.source for one in words} == {"estimate"}
    edges = [edge for one in words for edge in (one.start, one.end)]
    assert edges == sorted(edges) and edges[-1] <= len(trace.pcm)
    assert better.pcm is trace.pcm and len(better.events) == len(trace.events)


def test_each_cut_is_aligned_in_its_own_sound(sound: Path) -> None:
    trace = spoken(shell(f"cat {sound / 'a.wav'}"), f"{WORDS}. {WORDS}.")
    words = with_aligned_words(trace).words()
    half = len(trace.pcm) // 2
    assert words[5].end <= half <= words[6].start
    assert [one.start + half for one in words[:6]] == pytest.approx([one.start for one in words[6:]], abs=240)


def test_what_cannot_be_aligned_stays(sound: Path) -> None:
    other = spoken(shell(f"cat {sound / 'a.wav'}"), "xyzzyq plughq")
    assert with_aligned_words(other) is other
    trace = spoken(shell(f"cat {sound / 'a.wav'}"), WORDS)
    mine = replace(trace, meta={**trace.meta, "device": "cpu"})
    assert with_aligned_words(mine) is mine, "a voice of the studio"
