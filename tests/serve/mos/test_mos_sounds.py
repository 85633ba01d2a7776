"""Clips by byte ranges, with headers that reveal nothing but lengths."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mos.world import RATE_HZ
from serve.mos_serving import Browser, ServedTests, reply

from studio.core.clips import clip_id
from studio.core.sound_files import read_mono
from studio.serve.responses import ByteRange, RangeNotSatisfiable, span_of

SIZE = 44 + RATE_HZ  # half a second of 16 bits


def first_clip(rater: Browser) -> str:
    return rater.to_trials()["trial"]["slots"][0]["url"]


def test_complete_partial_and_head_requests(tests_served: ServedTests) -> None:
    rater = tests_served.join()
    url = first_clip(rater)
    whole = rater.get(url)
    assert (whole.status_code, len(whole.content), whole.headers["content-type"]) == (200, SIZE, "audio/wav")
    assert whole.headers["accept-ranges"] == "bytes"
    assert read_mono(whole.content)[1] == RATE_HZ
    for asked, start, stop in (
        ("bytes=0-99", 0, 100),
        ("bytes=100-", 100, SIZE),
        ("bytes=-10", SIZE - 10, SIZE),
        ("bytes=-999999", 0, SIZE),
        ("bytes=50-999999", 50, SIZE),
        ("Bytes = 5 - 5", 5, 6),
    ):
        part = rater.get(url, Range=asked)
        assert (part.status_code, part.content) == (206, whole.content[start:stop])
        assert part.headers["content-range"] == f"bytes {start}-{stop - 1}/{SIZE}"
        head = rater.get(url, method="HEAD", Range=asked)
        assert (head.status_code, head.content) == (206, b"")
        assert head.headers["content-length"] == str(stop - start)
    for asked in (f"bytes={SIZE}-", "bytes=-0", "bytes=999999-1000000"):
        refused = rater.get(url, Range=asked)
        assert (refused.status_code, refused.content) == (416, b"")
        assert refused.headers["content-range"] == f"bytes */{SIZE}"
    for ignored in ("bytes=9-5", "bytes=0-1,5-6", "samples=0-1", "bytes=-", "bytes=a-b", "bytes=" + "9" * 5000 + "-"):
        assert rater.get(url, Range=ignored).status_code == 200
    assert rater.get(url, Range="bytes=0-9", **{"If-Range": '"x"'}).status_code == 200


def test_responses_of_two_systems_look_alike(tests_served: ServedTests) -> None:
    """Everything but length, date and audio is equal for all clips."""
    rater = tests_served.join()
    shown = rater.to_trials()
    responses: dict[str, set[str]] = {}
    bodies = set()
    while shown["stage"] == "trials":
        for asked in ({}, {"Range": "bytes=0-99"}, {"Range": "bytes=9999999-"}):
            answer = rater.get(shown["trial"]["slots"][0]["url"], **asked)
            lengths = ("content-length", "content-range", "date")
            headers = [(name, "" if name in lengths else value) for name, value in answer.headers.items()]
            responses.setdefault(str(asked), set()).add(f"{answer.status_code} {answer.http_version} {headers}")
            bodies.add(answer.content)
            assert not {"etag", "last-modified", "content-disposition"} & set(answer.headers)
            assert answer.headers["cache-control"] == "private, no-store"
        rater.post("answer", reply(shown))
        shown = rater.next()
    assert len(bodies) > 4  # the sounds do differ
    assert {name: len(kinds) for name, kinds in responses.items()} == dict.fromkeys(responses, 1)


def test_clip_url_belongs_to_one_rater(tests_served: ServedTests) -> None:
    rater, other = tests_served.join("one"), tests_served.join("two")
    url = first_clip(rater)
    other.to_trials()
    assert other.get(url).status_code == 403
    trial, slot, key = url.split("/")[1:]
    for guess in (f"clip/{trial}/1/{key}", f"clip/{trial}/{slot}/{key[:-1]}", f"clip/x/{slot}/{key}"):
        assert rater.get(guess).status_code == 403
    assert rater.get(url).status_code == 200


def test_missing_file_is_not_named(tests_served: ServedTests) -> None:
    rater = tests_served.join()
    url = first_clip(rater)
    for file in tests_served.world.listening.clips.root.rglob("*.wav"):
        file.unlink()
    answer = rater.get(url)
    assert (answer.status_code, answer.json()["code"]) == (404, "bad_file")
    assert "/" not in answer.json()["message"]


def test_damaged_clip_is_not_played(tests_served: ServedTests) -> None:
    rater = tests_served.join()
    url = first_clip(rater)
    played = rater.get(url).content
    for file in tests_served.world.listening.clips.root.rglob("*.wav"):
        file.write_bytes(file.read_bytes()[:-2] + b"\x00\x7f")
        os.utime(file, ns=(0, 0))  # the write may share a tick of the file system's clock with the first one
    answer = rater.get(url)
    assert (answer.status_code, answer.json()["code"]) == (404, "bad_file")
    assert clip_id(*read_mono(played))[:12] not in answer.json()["message"]


@given(size=st.integers(1, 10_000), first=st.integers(0, 20_000), last=st.integers(0, 20_000))
def test_ranges_lie_within_the_file(size: int, first: int, last: int) -> None:
    for header in (f"bytes={first}-{last}", f"bytes={first}-", f"bytes=-{last}"):
        try:
            span = span_of(header, size)
        except RangeNotSatisfiable:
            assert first >= size or last == 0
            continue
        if span is not None:
            assert 0 <= span.start < span.stop <= size
        else:
            assert last < first
    assert span_of(f"bytes=0-{size + last}", size) == ByteRange(0, size)


@pytest.mark.parametrize("header", [None, "", "bytes", "bytes=", "bytes=--1", "bytes=1-2-3", "bytes=١-٢"])
def test_invalid_ranges(header: str | None) -> None:
    assert span_of(header, 100) is None


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 400, "10000", "-1", "1.0", "\u0661", "0x1", ""])
def test_invalid_clip_number(tests_served: ServedTests, number: str) -> None:
    rater = tests_served.join()
    shown = rater.to_trials()["trial"]
    assert rater.get(f"clip/{shown['trial']}/{number}/{'x' * 24}").status_code in (403, 404)
    assert rater.get(f"headphones/{number}").status_code in (404, 422)
