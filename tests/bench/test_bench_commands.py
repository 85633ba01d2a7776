"""The evaluations from start to finish on a tiny random voice with the real teachers and recogniser."""

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from studio.bench import summary
from studio.bench.evaluation import boundaries, hour, quality, seams, vocoder, wer
from studio.bench.evaluation.boundaries import BoundarySetting, eval_boundaries
from studio.bench.evaluation.hour import HourSetting, _Hour, eval_hour
from studio.bench.evaluation.quality import QualitySetting, eval_quality
from studio.bench.evaluation.seams import SeamSetting, eval_seams
from studio.bench.evaluation.vocoder import VocoderSetting, eval_vocoder
from studio.bench.evaluation.wer import (
    LongSetting,
    ShortSetting,
    WerSetting,
    draw_texts,
    eval_long,
    eval_short,
    eval_wer,
)
from studio.bench.material import EvaluationRun, code_digest, evaluation_run, speaking_code
from studio.bench.options import FINAL_TEXTS, Setting, result_name
from studio.bench.speed import latency
from studio.bench.speed.latency import LatencySetting, bench_latency
from studio.bench.summary import summarise
from studio.core.clips import write_wav
from studio.core.errors import BadFile, BadOption, BadVoice
from studio.core.folders import TEXTS
from studio.core.sound_files import read_mono
from studio.measure.recognisers.pocketsphinx import WordTime
from studio.measure.report import plain, write_result


def test_wer_is_compared_with_the_teacher_and_its_dmel(given, capsys):
    out = eval_wer(WerSetting(**given, settings=("m=1", "m=3")))
    figures = out["speakers"]["slt"]
    assert set(figures) == {"n", "teacher", "dmel", "m=1", "m=3"}
    gain = figures["m=3"]["above_first"]
    assert gain["first"] == "m=1" and gain["value"] == pytest.approx(figures["m=3"]["value"] - figures["m=1"]["value"])
    assert figures["n"] == 2
    assert figures["teacher"]["value"] < 0.5 < figures["m=1"]["value"]
    assert figures["m=3"]["above_dmel"]["value"] == pytest.approx(figures["m=3"]["value"] - figures["dmel"]["value"])
    assert figures["dmel"]["above_dmel"]["value"] == 0.0
    assert out["temperature"] == 0.7
    assert out["recogniser"]["name"] == "pocketsphinx"
    json.dumps(plain(out), allow_nan=False)
    wer.show(out)
    printed = capsys.readouterr().out
    assert "slt m=3" in printed
    assert f"by pocketsphinx en-us ({out['recogniser']['sha256'][:8]})" in printed


def test_interrupted_run_resumes(given):
    setting = WerSetting(**given, settings=("m=1",), quiet=True)
    first = eval_wer(setting)
    kept = {path: path.stat().st_mtime_ns for path in given["cache"].rglob("*.*")}
    assert eval_wer(setting) == first
    assert {path: path.stat().st_mtime_ns for path in given["cache"].rglob("*.*")} == kept
    (transcripts,) = given["cache"].glob("transcripts-pocketsphinx-*.jsonl")
    with transcripts.open("a") as file:
        file.write('["cut sh')
    assert eval_wer(setting) == first


def test_long_speech_is_scored_by_halves(given):
    one = eval_long(LongSetting(**given, settings=("m=2",), quiet=True))["speakers"]["slt"]
    assert one["second_above_first"]["value"] == pytest.approx(one["second"] - one["first"])
    assert 0.0 < one["rtf"] < 20.0
    assert one["audio_s"] > 1.0


def test_first_and_last_minutes_of_an_utterance_have_the_same_text(given, tmp_path, capsys):
    asked = {name: value for name, value in given.items() if name != "count"} | {"settings": ("m=2",)}
    asked["texts"] = tmp_path / "short.txt"
    asked["texts"].write_text("The rain.\nMy sister.\n")
    out = eval_hour(HourSetting(**asked, minutes=0.1, block_minutes=0.02))
    one = out["speakers"]["slt"]
    assert one["audio_s"] > 6.0 and one["lines"] >= 1
    assert one["last_above_first"]["value"] == pytest.approx(one["last"] - one["first"])
    assert len(one["memory_mib"]) >= 4
    json.dumps(plain(out), allow_nan=False)
    hour.show(out)
    assert "One utterance of 0.1 minutes" in capsys.readouterr().out
    with pytest.raises(BadOption, match="compare shorter blocks"):
        eval_hour(HourSetting(**asked, minutes=1.0, block_minutes=0.6))


def test_sentences_of_an_hour_are_cut_at_the_previous_end(given):
    asked = {name: value for name, value in given.items() if name != "count"}
    setting = HourSetting(**asked, minutes=0.3, block_minutes=0.1)  # nothing is recognised here
    with evaluation_run(setting) as at:
        hour = _Hour(at, setting, "slt", given["texts"].read_text().splitlines())
        hour.speak()
    first, last = hour.blocks
    assert [line.text for line in first] == [line.text for line in last] and first[0].start == 0
    for block in hour.blocks:
        assert all(one.end == after.start and one.start < one.end for one, after in itertools.pairwise(block))
        assert all(len(hour.sound(line)[0]) == line.end - line.start for line in block)
    assert first[-1].end < last[0].start


def test_damaged_cached_speech_is_spoken_again(given, tmp_path):
    asked = {name: given[name] for name in ("voices", "voice") if name in given}
    with evaluation_run(Setting(**asked, cache=tmp_path, quiet=True)) as at:
        (first,) = at.speak("slt", ["The kettle is on."], {})
        (kept,) = tmp_path.glob("speech/*.trace")
        whole = kept.read_bytes()
        kept.write_bytes(whole[: len(whole) // 2])
        (again,) = at.speak("slt", ["The kettle is on."], {})
        assert np.array_equal(first.pcm, again.pcm) and len(kept.read_bytes()) > len(whole) // 2
        kept_ns = kept.stat().st_mtime_ns
        at.speak("slt", ["The kettle is on."], {})
        assert kept.stat().st_mtime_ns == kept_ns, "intact speech is not spoken again"


def test_socket_is_timed_with_the_cards_options(given):
    asked = given | {"count": 1}
    out = bench_latency(LatencySetting(**asked, warm=0, pause_ms=0.0, typed=0, cold=0, served=1, quiet=True))
    assert out["t4_t0_ms"]["n"] == 1 and out["t4_t0_ms"]["p50"] > 0


def test_short_texts_are_compared_with_the_teacher(given, capsys):
    out = eval_short(ShortSetting(**given | {"cache": None}, settings=("m=2",)))
    one = out["speakers"]["slt"]
    assert len(out["texts"]) == one["n"] == 2 and [len(text.split()) for text in out["texts"]] == [1, 2]
    assert [*one["right"]] == ["teacher", "dmel", "voice"] and all(0 <= share <= 1 for share in one["right"].values())
    gain = one["above_teacher"]
    assert (
        gain["value"] == one["right"]["voice"] - one["right"]["teacher"]
        and gain["low"] <= gain["value"] <= gain["high"]
    )
    assert one["shortest"] > 0.0 and all(text in out["texts"] for text in one["cut_short"])
    assert len(one["misheard"]) == round(one["n"] * (1.0 - one["right"]["voice"]))
    wer.show_short(out)
    assert "voice right" in capsys.readouterr().out


def test_short_texts_are_sampled_by_seed_within_marks():
    lines = ["The dog, however, slept.", 'She said "go on" twice.']
    texts = draw_texts(lines, 12, 0)
    assert texts == draw_texts(lines, 12, 0) != draw_texts(lines, 12, 1) and len(set(texts)) == len(texts)
    pairs = {text for text in draw_texts(lines, 100, 0) if " " in text}
    assert pairs == {"the dog", "she said", "said go", "go on"}


def test_vocoders_are_compared_with_the_teacher(given, capsys):
    out = eval_vocoder(VocoderSetting(**given))
    one = out["vocoders"]["sourcefilter"]
    assert out["n"] == 2
    assert one["parameters"] > 0
    assert one["mels"]["stft"] > 0.1
    assert one["dmel_above_teacher"]["value"] == pytest.approx(one["dmel"]["value"] - out["teacher"]["value"])
    vocoder.show(out)
    assert "sourcefilter" in capsys.readouterr().out
    with pytest.raises(BadVoice, match="no vocoder 'loud'"):
        eval_vocoder(VocoderSetting(**given, vocoders=("loud",)))


def test_predicted_mos_of_a_voice_its_vocoder_a_folder_and_the_teacher(given, tmp_path, capsys):
    loud, quiet = tmp_path / "noisy", tmp_path / "teacher"
    for folder, noise in ((loud, 2000), (quiet, 0)):
        folder.mkdir()
        for name, (pcm, rate_hz) in _taught(given).items():
            hiss = np.random.default_rng(0).normal(0, noise, len(pcm)) if noise else 0
            write_wav(folder / f"{name}.wav", np.clip(pcm + hiss, -32768, 32767).astype(np.int16), rate_hz)
    voice = QualitySetting(**given, settings=("m=2",), vocoders="sourcefilter")
    out = eval_quality(voice)
    figures = out["speakers"]["slt"]
    assert set(figures) == {"teacher", "dMel", "sourcefilter mels", "sourcefilter dmel", "m=2"}
    assert all(one["n"] == 2 and one["above_teacher"]["paired"] for one in figures.values())
    assert figures["teacher"]["value"] > 2.5 > figures["m=2"]["value"] >= 1.0
    assert figures["m=2"]["above_teacher"]["value"] == pytest.approx(
        figures["m=2"]["value"] - figures["teacher"]["value"]
    )
    quality.show(out)
    printed = capsys.readouterr().out
    assert "slt m=2" in printed and "DistillMOS" in printed and "not by people" in printed
    out = eval_quality(QualitySetting(**given, folders=(loud,), teacher=quiet))
    assert out["speakers"] == {}
    assert out["folders"]["teacher"]["value"] == pytest.approx(figures["teacher"]["value"]), "predicted before"
    assert out["folders"][str(loud)]["above_teacher"]["value"] < -0.3
    json.dumps(plain(out), allow_nan=False)


def _taught(given):
    """The teacher's speech cached by earlier evaluations."""
    (labels,) = given["cache"].glob("teacher/slt-*/labels.jsonl")
    return {path.stem: read_mono(path) for path in sorted(labels.parent.glob("*.wav"))}


def test_boundaries_of_a_voice_that_never_ends_a_segment(given, capsys):
    out = eval_boundaries(BoundarySetting(**given, m=3, hops=(1, 2)))
    one = out["speakers"]["slt"]
    assert set(one["window"]) == {"1", "2"}
    assert one["window"]["1"]["forced"] > 0.9
    assert one["teacher_forced"]["misses"] == one["teacher_forced"]["boundaries"] == 11
    assert one["aligner_on_teacher"]["f1"] > 0.6
    boundaries.show(out)
    assert "segments with exactly their own words, n=2" in capsys.readouterr().out


def test_latency_is_keyed_by_the_ladder(given, capsys):
    brief = {"warm": 1, "typed": 1, "cold": 0, "served": 0, "gap_ms": 20.0, "pause_ms": 0.0}
    out = bench_latency(LatencySetting(**given, settings=("m=3",), **brief))
    assert out["typed"]["n"] == 1 and out["typed"]["t2_t0_ms"]["p50"] > 0.0
    assert 0.0 < out["t2_t0_ms"]["p50"] <= out["t2_t0a_ms"]["p50"] <= out["t2_t0a_ms"]["p95"]
    assert out["t2_t0_ms"]["n"] == 2
    assert out["rtf"] > 0.0
    latency.show(out)
    printed = capsys.readouterr().out
    assert "words 20 ms apart: t2 - t0" in printed
    assert "First audio of tiny" in printed


def test_results_become_a_page(given, tmp_path):
    with pytest.raises(BadFile, match="no results"):
        summarise(tmp_path, tmp_path / "page.md")
    setting = LatencySetting(**given, settings=("m=3",), warm=1, typed=0, cold=0, served=0, quiet=True)
    write_result("latency", bench_latency(setting), tmp_path)
    overview = summarise(tmp_path, tmp_path / "docs" / "README.md").read_text()
    assert "(speed.md#first-audio-of-the-engine" in overview
    page = (tmp_path / "docs" / "speed.md").read_text()
    assert "## First audio of the engine" in page and "| t2 - t0 |" in page and "rtf (compute / audio)" in page
    assert "have changed since" not in page, "the voice is not a shipped one"


@pytest.mark.parametrize("named", [{"voice": "finch", "sha256": {"s5.safetensors": "0"}}, {"voices": {"finch": {}}}])
def test_figures_of_weights_no_longer_shipped_say_so(named, tmp_path, monkeypatch):
    monkeypatch.setitem(summary.TOPICS["speech"][1], "wer", ("Word error rate", lambda _: None))
    figures = {"hardware": {}, "command": "studio eval wer", "date": "2026-11-27", "git_sha": "0", **named}
    (tmp_path / "wer-2026-11-27.json").write_text(json.dumps(figures))
    summary.summarise(tmp_path, tmp_path / "README.md")
    page = (tmp_path / "speech.md").read_text()
    assert ("The weights of finch have changed since." in page) == ("voice" in named)


def test_figures_on_texts_of_final_reports_replace_none_of_the_others():
    for texts, prefix in (("eval", ""), *((name, f"{name}-") for name in FINAL_TEXTS)):
        path = TEXTS / f"{texts}.txt"
        assert path.is_file()
        for setting, command in ((WerSetting, "wer"), (QualitySetting, "quality")):
            assert result_name(setting(texts=path), command) == f"{prefix}{command}" in summary.TOPICS["speech"][1]
        assert result_name(BoundarySetting(texts=path, only_forced=True), "boundaries") == f"{prefix}forced-boundaries"


def test_bad_arguments_are_named(given, tmp_path):
    with pytest.raises(BadVoice, match="no speaker 'nobody'"):
        eval_wer(WerSetting(**{**given, "speakers": ("nobody",)}))
    with pytest.raises(BadVoice, match="there are no voices"):
        eval_wer(WerSetting(**{**given, "voices": tmp_path}))
    with pytest.raises(BadFile, match="has only 2 texts"):
        eval_wer(WerSetting(**{**given, "count": 3}))
    with pytest.raises(BadFile, match="cannot be read"):
        eval_wer(WerSetting(**{**given, "texts": tmp_path / "none.txt"}))


def test_teacher_may_be_a_folder_of_other_sounds(given, steady, tmp_path, capsys):
    own = tmp_path / "slt"
    own.mkdir()
    for number in range(3):
        write_wav(own / f"{number}.wav", np.full(16000 * (1 + number), 99, np.int16), 16000)
    out = eval_quality(QualitySetting(**given, settings=("m=1",), teacher=tmp_path))
    figures = out["speakers"]["slt"]
    assert figures["teacher"]["value"] == pytest.approx(3.0) and figures["teacher"]["mean_s"] == pytest.approx(2.0)
    assert figures["dMel"]["above_teacher"]["paired"] and not figures["m=1"]["above_teacher"]["paired"]
    quality.show(out)
    assert "(unpaired)" in capsys.readouterr().out


def evenly(sounds, texts, *, on_done, **_):
    """An aligner that gives all words of a sound equal lengths."""
    out = []
    for (pcm, rate_hz), text in zip(sounds, texts, strict=True):
        each_s = len(pcm) / rate_hz / len(text.split())
        out.append([WordTime(word, i * each_s, (i + 1) * each_s) for i, word in enumerate(text.split())])
        on_done()
    return out


def test_seams_are_compared_with_other_boundaries_of_the_same_words(given, monkeypatch, capsys):
    monkeypatch.setattr("studio.bench.evaluation.seams.align_all", evenly)
    texts = [f"{one} and {another} ran home." for one in ("birds", "dogs", "cats") for another in ("men", "girls")]
    path = given["texts"].with_name("seams.txt")
    path.write_text("\n".join(texts) + "\n")
    asked = {**given, "settings": ("m=4",), "texts": path}
    out = eval_seams(SeamSetting(**{**asked, "count": len(texts)}, hops=(2,)))
    assert out["hops"].keys() == {"2"}
    of = out["hops"]["2"]["conditions"]
    assert [*of] == ["voice", "overlapped", "naive concatenation", "teacher, same words"]
    for one in of.values():
        assert one["boundaries"] == 4 * len(texts) and one["seams"] == 2 * len(texts)
        assert 0.0 <= one["area"]["low"] <= one["area"]["value"] <= one["area"]["high"] <= 1.0
    seams.show(out)
    assert "too few" in capsys.readouterr().out
    with pytest.raises(BadFile, match="has more than 4 words"):
        path.write_text("One two three.\nSix seven.\n")
        eval_seams(SeamSetting(**asked, hops=(4,)))


def test_missing_teacher_is_reported(given, steady, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    out = eval_quality(QualitySetting(**{**given, "cache": None}, settings=("m=1",)))
    assert set(out["speakers"]["slt"]) == {"m=1"} and "above_teacher" not in out["speakers"]["slt"]["m=1"]
    quality.show(out)
    assert "There is no teacher of slt" in " ".join(capsys.readouterr().out.split())


def test_word_errors_are_reported_without_a_teacher(given, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    shutil.copytree(given["cache"], tmp_path / "cache", ignore=shutil.ignore_patterns("teacher"))  # what was recognised
    out = eval_wer(WerSetting(**{**given, "cache": tmp_path / "cache"}, settings=("m=1", "m=3")))
    figures = out["speakers"]["slt"]
    assert set(figures) == {"n", "m=1", "m=3"} and "above_dmel" not in figures["m=1"]
    assert figures["m=3"]["above_first"]["first"] == "m=1"
    wer.show(out)
    assert "There is no teacher of slt" in " ".join(capsys.readouterr().out.split())
    json.dumps(plain(out), allow_nan=False)


def test_invalid_arguments_are_reported_before_speaking(given, steady, monkeypatch):
    def spoken(*_, **__):
        pytest.fail("something was spoken")

    for name in ("speak", "teacher"):
        monkeypatch.setattr(EvaluationRun, name, spoken)
    for measure, of in ((eval_wer, WerSetting), (eval_quality, QualitySetting)):
        with pytest.raises(BadOption):
            measure(of(**given, settings=("m=9",)))
    with pytest.raises(BadVoice, match="has no vocoder 'vocstream'"):
        eval_quality(QualitySetting(**given, vocoders="vocstream"))


def test_unusable_folders_are_named(given, steady, tmp_path):
    def judged(folder):
        return eval_quality(QualitySetting(**given, quiet=True, folders=(folder,)))["folders"][str(folder)]

    with pytest.raises(BadFile, match="none is no folder"):
        judged(tmp_path / "none")
    with pytest.raises(BadFile, match="holds no sounds"):
        judged(tmp_path)
    write_wav(tmp_path / "one.wav", np.full(32000, 99, np.int16), 16000)
    alone = judged(tmp_path)
    assert alone["value"] == 3.0 and np.isnan(alone["low"])
    (tmp_path / "two.flac").write_bytes(b"fLaC, not")
    with pytest.raises(BadFile, match=r"two\.flac is damaged"):
        judged(tmp_path)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name in ("core", "engine/families", "text", "ui"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "one.py").write_text("ONE = 1\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("where", ["core/one.py", "engine/families/one.py", "text/one.py", "engine/two.py"])
def test_speaking_code_is_identified_by_its_content(package: Path, where: str) -> None:
    before = code_digest(package)
    (package / where).write_text("ONE = 2\n", encoding="utf-8")
    assert code_digest(package) != before


def test_line_numbers_count(package: Path) -> None:
    before = code_digest(package)
    (package / "engine" / "families" / "one.py").rename(package / "engine" / "one.py")
    assert code_digest(package) != before


def test_non_speaking_code_changes_nothing(package: Path) -> None:
    before = code_digest(package)
    (package / "ui" / "one.py").write_text("ONE = 2\n", encoding="utf-8")
    (package / "engine" / "notes.md").write_text("Notes.", encoding="utf-8")
    assert code_digest(package) == before


def test_studio_code_is_hashed_once() -> None:
    assert speaking_code() == speaking_code() and len(speaking_code()) == 64
