"""A cascade: words arrive on schedule, and the voice's time is separated from its waiting time."""

import json
from pathlib import Path

import pytest
from tinyvoice import write_tiny_voice

from studio.bench.speed import cascade
from studio.bench.speed.cascade import CascadeSetting, Reply, bench_cascade, evenly, read_replies
from studio.bench.summary import summarise
from studio.core import events as ev
from studio.core.errors import BadFile
from studio.measure.report import plain, write_result

TEXTS = ["the apple and the tea are good today.", "then it rains and we all go home again."]


def test_words_arrive_evenly_with_the_space_before_them():
    assert evenly("The rain  stops.", 100.0, 20.0) == Reply(((100.0, "The"), (120.0, " rain"), (140.0, " stops.")))


@pytest.fixture
def asked(tmp_path: Path):
    write_tiny_voice(tmp_path / "voices")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    return {
        "voices": tmp_path / "voices",
        "device": "cpu",
        "texts": tmp_path / "texts.txt",
        "count": 2,
        "pause_ms": 0.0,
    }


def test_voice_waits_for_the_words_it_needs(asked, monkeypatch, capsys, tmp_path):
    heard = []
    timed = cascade._timed

    def kept(reply, trace):
        heard.append(trace)
        return timed(reply, trace)

    monkeypatch.setattr(cascade, "_timed", kept)
    out = bench_cascade(CascadeSetting(**asked, settings=("n=1,m=3",), first_word_ms=200.0, word_ms=150.0))
    assert len(heard) == 4, "two more than are counted"
    for trace in heard:
        came = [one.t_ms for one in trace.events if isinstance(one, ev.TextReceived)]
        assert len(came) == len(trace.words())
        assert all(t_ms >= 150.0 * k for k, t_ms in enumerate(came)), "counted from the start of the utterance"
    # A window of three words is complete when the fourth begins: 200 + 3 * 150 ms; the whole text 600 ms later.
    assert 640.0 < out["llm_ms"]["p50"] < 1100.0 and out["n"] == out["e2e_ms"]["n"] == 2
    assert out["e2e_ms"]["mean"] == pytest.approx(out["llm_ms"]["mean"] + out["first_ms"]["mean"])
    assert out["first_ms"]["p50"] > 0.0
    json.dumps(plain(out), allow_nan=False)
    cascade.show(out)
    printed = capsys.readouterr().out
    assert "question to first sound" in printed and "the first word after 200 ms" in printed
    write_result("cascade", out, tmp_path / "results")
    page = summarise(tmp_path / "results", tmp_path / "README.md").with_name("speed.md")
    assert "## From a question to the first sound" in page.read_text(encoding="utf-8")


def test_recorded_replies_are_replayed_on_schedule(asked, tmp_path):
    path = tmp_path / "replies.jsonl"
    pieces = [[50, "The"], [50.5, " apple and"], [60, " the te"], [300, "a is good."]]
    path.write_text(json.dumps({"pieces": pieces}) + "\n\n", encoding="utf-8")
    (reply,) = read_replies(path)
    assert reply == Reply(tuple((float(at), text) for at, text in pieces))
    out = bench_cascade(CascadeSetting(**{**asked, "count": 1}, arrivals=path, settings=("n=1,m=5",), quiet=True))
    assert out["arrivals"] == "replies.jsonl" and 295.0 < out["llm_ms"]["p50"] < 480.0, "the fifth word ends there"


@pytest.mark.parametrize(
    "line",
    [
        "no",
        "[]",
        "{}",
        '{"pieces": []}',
        '{"pieces": [[1, " "]]}',
        '{"pieces": [[1, "a"], [0, "b"]]}',
        '{"pieces": [[-1, "a"]]}',
        '{"pieces": [[NaN, "a"]]}',
        '{"pieces": [[1e9, "a"]]}',
        '{"pieces": [[1, 2]]}',
        '{"pieces": [[1, "a", 3]]}',
        '{"pieces": [["soon", "a"]]}',
        "[" * 100_000,
    ],
)
def test_invalid_reply_is_named_by_line(tmp_path, line):
    path = tmp_path / "replies.jsonl"
    path.write_text('{"pieces": [[1, "a"]]}\n' + line, encoding="utf-8")
    with pytest.raises(BadFile, match=r"line 2 of .* is not a reply; write .*pieces"):
        read_replies(path)


def test_too_few_replies_and_no_file(tmp_path):
    path = tmp_path / "replies.jsonl"
    path.write_text('{"pieces": [[1, "a"]]}', encoding="utf-8")
    with pytest.raises(BadFile, match="holds 1 replies; 2 are asked for"):
        read_replies(path, 2)
    with pytest.raises(BadFile, match="cannot be read"):
        read_replies(tmp_path / "none.jsonl")


def test_reply_without_a_word_has_no_latency(asked, tmp_path):
    path = tmp_path / "replies.jsonl"
    path.write_text('{"pieces": [[1, "..."]]}', encoding="utf-8")
    with pytest.raises(BadFile, match="nothing was spoken"):
        bench_cascade(CascadeSetting(**{**asked, "count": 1}, arrivals=path, quiet=True))
