"""Compare routes: utterances by token, library entries for the owner, invalid pairs."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from inspection.spoken import RATE_HZ, pcm, story
from inspection.test_timeline import unpack
from serve.mos_serving import ServedTests
from serve.serving import Served

import studio.serve.trace_views
from studio.core import events as ev
from studio.core.clips import wav_bytes
from studio.core.traces.trace_writer import TraceWriter

A, B, OTHER = (letter * 22 for letter in "abc")


def put(folder: Path, token: str, m: int, *words: str) -> None:
    """Store a trace; its words are the story's by default."""
    said = iter(words)
    writer = TraceWriter(folder / token, {"options": {"m": m}})
    writer.write(
        *(replace(one, word=next(said, one.word)) if isinstance(one, ev.Committed) else one for one in story())
    )
    writer.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedTests]:
    folder = tmp_path_factory.mktemp("compared")
    found = ServedTests(folder)
    traces = Path(found.world.listening.clips.root).parent / "traces"
    put(traces, A, 1)
    put(traces, B, 3)
    put(traces, OTHER, 2, "nothing", "of", "that")
    yield found
    found.stop()


def asked(served: Any, part: str, *names: tuple[str, str], owner: bool = False, **more: Any) -> httpx.Response:
    headers = served.owner if owner else {}
    return httpx.get(f"{served.url}/compare/{part}", params=[*names, *more.items()], headers=headers, timeout=30.0)


def test_stored_traces_are_compared_in_url_order(served: ServedTests) -> None:
    answer = asked(served, "view", ("trace", B), ("trace", A))
    assert answer.headers["cache-control"] == "private, no-store"
    header, arrays = unpack(answer.content)
    assert [one["name"] for one in header["takes"]] == ["m=3", "m=1"]
    assert (arrays["pcm0"] == pcm()).all() and (arrays["pcm1"] == pcm()).all()
    assert header["rows"] == [[0, 0], [1, 1], [2, 2]] and header["can_stretch"]
    assert header["takes"][1]["by_word"]["axis"][-1] == pytest.approx(0.25)
    assert header["pairs"][0]["duration_r"] == pytest.approx(1.0)


def test_words_have_pitch_and_level(served: ServedTests) -> None:
    header, _ = unpack(asked(served, "words", ("trace", A), ("trace", B)).content)
    assert header["rows"][0][1] == pytest.approx([220.0, -17.8], abs=2.0)
    assert header["pairs"][0]["pitch_st"] == 0.0 and header["lacks"] == ""


def test_difference_of_a_chosen_pair(served: ServedTests) -> None:
    answer = asked(served, "difference", ("trace", A), ("trace", B), one=0, other=1, stretch=True)
    header, arrays = unpack(answer.content)
    assert (header["bands"], header["mean_db"], header["stretch"]) == (80, 0.0, True)
    assert set(np.unique(arrays["db"])) == {128} and len(arrays["db"]) == 25 * 80


def test_different_text_is_reported_and_cannot_be_aligned(served: ServedTests) -> None:
    names = (("trace", A), ("trace", OTHER))
    header, _ = unpack(asked(served, "view", *names).content)
    assert header["strangers"] == [1] and not header["can_stretch"] and header["takes"][1]["by_word"] is None
    assert asked(served, "difference", *names, one=0, other=1).status_code == 200
    answer = asked(served, "difference", *names, one=0, other=1, stretch=True)
    assert answer.status_code == 422 and "without stretch" in answer.json()["message"]


def test_library_entries_need_the_owner_token(served: ServedTests) -> None:
    sent = httpx.post(
        f"{served.url}/library/files",
        content=wav_bytes(pcm(), RATE_HZ),
        headers={**served.owner, "X-Studio-Text": "one two three"},
    )
    name = sent.json()["name"]
    for owner in (False, True):
        answer = asked(served, "view", ("trace", A), ("kept", name), owner=owner)
        assert answer.status_code == (200 if owner else 403)
    header, _ = unpack(answer.content)
    assert [one["name"] for one in header["takes"]] == ["v:a", "recording"]
    assert header["takes"][1]["timed"] == 0 and header["strangers"] == []
    missing = asked(served, "view", ("trace", A), ("kept", "f" * 12), owner=True)
    assert missing.status_code == 404 and "number 2 of 2" in missing.json()["message"]


@pytest.mark.parametrize(
    ("names", "status", "why"),
    [
        ([], 422, "0 utterances"),
        ([("trace", A)] * 9, 422, "9 utterances"),
        ([("trace", A), ("trace", "x" * 22)], 404, "number 2 of 2 cannot be opened: there is no such trace"),
        ([("trace", "../secret"), ("trace", A)], 404, "number 1 of 2"),
        ([("trace", "x" * 65)], 422, "too long"),
    ],
)
def test_bad_names_are_refused(served: ServedTests, names: list[tuple[str, str]], status: int, why: str) -> None:
    answer = asked(served, "view", *names)
    assert answer.status_code == status and why in answer.json()["message"]


@pytest.mark.parametrize("pair", [(0, 2), (-1, 1), (0, 8)])
def test_invalid_pair_is_refused(served: ServedTests, pair: tuple[int, int]) -> None:
    answer = asked(served, "difference", ("trace", A), ("trace", B), one=pair[0], other=pair[1])
    assert answer.status_code == 422


def test_oversized_comparison_is_refused(served: ServedTests, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studio.serve.trace_views, "MAX_COMPARED_BYTES", 3 * len(pcm()))
    assert asked(served, "view", ("trace", A)).status_code == 200
    answer = asked(served, "view", ("trace", A), ("trace", B))
    assert answer.status_code == 422 and "too long" in answer.json()["message"]


def test_studio_without_a_library_says_so(tmp_path: Path) -> None:
    served = Served(tmp_path)
    answer = asked(served, "view", ("kept", "f" * 12))
    assert answer.status_code == 404 and "no library" in answer.json()["message"]
    served.stop()
