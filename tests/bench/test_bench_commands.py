"""The evaluations from start to finish on a tiny random voice and the real teachers and recogniser."""

import json
import shutil

import pytest
import torch
from needs import needs
from tinyvoice import write_tiny_voice

from studio.core.errors import BadFile, BadVoice
from studio.measure.report import plain, write_result

TEXTS = ("The rain stopped just before noon.", "My sister sold the old brown horse.")


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Settings that every command takes: a voice, one speaker, texts, a cache."""
    needs(shutil.which("festival"), "festival (apt-get install festival festvox-us-slt-hts)")
    torch.set_num_threads(1)
    root = tmp_path_factory.mktemp("bench")
    texts = root / "texts.txt"
    texts.write_text("\n".join(TEXTS) + "\n")
    voices = root / "voices"
    write_tiny_voice(voices, eos_bias=-50.0, speakers=("slt", "rms"))
    return {"voices": voices, "texts": texts, "count": 2, "cache": root / "cache", "workers": 1, "speakers": ("slt",)}


def test_wer_is_compared_with_the_teacher_and_its_dmel(given, capsys):
    from studio.bench.wer import WerSetting, eval_wer

    out = eval_wer(WerSetting(**given, windows=(1, 3)))
    figures = out["speakers"]["slt"]
    assert set(figures) == {"n", "teacher", "dmel", "m=1", "m=3"}
    assert figures["n"] == 2
    assert figures["teacher"]["value"] < 0.5 < figures["m=1"]["value"]
    assert figures["m=3"]["above_dmel"]["value"] == pytest.approx(figures["m=3"]["value"] - figures["dmel"]["value"])
    assert figures["dmel"]["above_dmel"]["value"] == 0.0
    assert out["temperature"] == 0.7
    json.dumps(plain(out), allow_nan=False)
    assert "slt m=3" in capsys.readouterr().out


def test_a_stopped_run_goes_on_where_it_was(given):
    from studio.bench.wer import WerSetting, eval_wer

    setting = WerSetting(**given, windows=(1,), quiet=True)
    first = eval_wer(setting)
    kept = {path: path.stat().st_mtime_ns for path in given["cache"].rglob("*.*")}
    assert eval_wer(setting) == first
    assert {path: path.stat().st_mtime_ns for path in given["cache"].rglob("*.*")} == kept
    with (given["cache"] / "transcripts.jsonl").open("a") as file:
        file.write('["cut sh')
    assert eval_wer(setting) == first


def test_long_speech_is_scored_by_halves(given):
    from studio.bench.long import LongSetting, eval_long

    one = eval_long(LongSetting(**given, m=2, quiet=True))["speakers"]["slt"]
    assert one["second_above_first"]["value"] == pytest.approx(one["second"] - one["first"])
    assert 0.0 < one["rtf"] < 20.0
    assert one["audio_s"] > 1.0


def test_vocoders_stand_beside_the_teacher(given, capsys):
    from studio.bench.vocoder import VocoderSetting, eval_vocoder

    out = eval_vocoder(VocoderSetting(**given))
    one = out["vocoders"]["sourcefilter"]
    assert out["n"] == 2
    assert one["parameters"] > 0
    assert one["mels"]["stft"] > 0.1
    assert one["dmel_above_teacher"]["value"] == pytest.approx(one["dmel"]["value"] - out["teacher"]["value"])
    assert "sourcefilter" in capsys.readouterr().out
    with pytest.raises(BadVoice, match="no vocoder 'loud'"):
        eval_vocoder(VocoderSetting(**given, vocoders=("loud",)))


def test_boundaries_of_a_voice_that_never_ends_a_segment(given, capsys):
    from studio.bench.boundaries import BoundarySetting, eval_boundaries

    out = eval_boundaries(BoundarySetting(**given, m=3, hops=(1, 2)))["speakers"]["slt"]
    assert set(out["window"]) == {"1", "2"}
    assert out["window"]["1"]["forced"] > 0.9
    assert out["teacher_forced"]["misses"] == out["teacher_forced"]["boundaries"] == 11
    assert out["aligner_on_teacher"]["f1"] > 0.6
    assert "window obeyed n=2" in capsys.readouterr().out


def test_latency_is_keyed_by_the_ladder(given, capsys):
    from studio.bench.latency import LatencySetting, bench_latency

    out = bench_latency(LatencySetting(**given, m=3, warm=1, pause_ms=0.0))
    assert 0.0 < out["t2_t0_ms"]["p50"] <= out["t2_t0a_ms"]["p50"] <= out["t2_t0a_ms"]["p95"]
    assert out["t2_t0_ms"]["n"] == 2
    assert out["rtf"] > 0.0
    assert "First audio of tiny" in capsys.readouterr().out


def test_results_become_a_page(given, tmp_path):
    from studio.bench.latency import LatencySetting, bench_latency
    from studio.bench.summary import summarise

    with pytest.raises(BadFile, match="no results"):
        summarise(tmp_path, tmp_path / "page.md")
    write_result("latency", bench_latency(LatencySetting(**given, m=3, warm=1, quiet=True)), tmp_path)
    page = summarise(tmp_path, tmp_path / "docs" / "page.md").read_text()
    assert "## First audio of the engine" in page and "t2 - t0" in page and "rtf (compute / audio)" in page


def test_mistakes_are_named(given, tmp_path):
    from studio.bench.wer import WerSetting, eval_wer

    with pytest.raises(BadVoice, match="no speaker 'nobody'"):
        eval_wer(WerSetting(**{**given, "speakers": ("nobody",)}))
    with pytest.raises(BadVoice, match="there are no voices"):
        eval_wer(WerSetting(**{**given, "voices": tmp_path}))
    with pytest.raises(BadFile, match="holds 2 texts"):
        eval_wer(WerSetting(**{**given, "count": 3}))
    with pytest.raises(BadFile, match="cannot be read"):
        eval_wer(WerSetting(**{**given, "texts": tmp_path / "none.txt"}))
