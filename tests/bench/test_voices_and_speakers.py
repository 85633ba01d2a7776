"""Comparison of voices, speakers of recordings, and a teacher's speakers."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from tinyvoice import write_tiny_voice
from train.fake_kokoro import FakeKokoro

from studio.bench.evaluation.speakers import bands_db, compare_speakers
from studio.bench.material import evaluation_run
from studio.bench.options import Setting
from studio.core.errors import BadFile, BadOption, BadText, BadVoice
from studio.measure.report import plain
from studio.measure.signal import active_level_db
from studio.train.teachers.kokoro import Kokoro
from studio.train.teachers.registry import open_teacher

TEXTS = ["The old harbour was quiet.", "Nobody came at all, I think."]


def test_speakers_are_identified_by_the_teachers_speech(given, tmp_path, capsys, monkeypatch):
    """A random voice matches nobody; the teachers are distinguished, unlearned speakers listed separately."""
    from studio.bench.evaluation import prompts
    from studio.bench.evaluation.prompts import PromptSetting, eval_prompts

    voices, texts = tmp_path / "voices", tmp_path / "texts.txt"
    write_tiny_voice(voices, eos_bias=-50.0, speakers=("slt", "rms"))
    recipe = 'name = "tiny"\ntitle = "Tiny"\nseed = 1\ntemperature = 0.7\n[corpus]\nspeakers = ["slt", "rms"]\n'
    more = 'unseen = ["rms"]\nshard_sentences = 1\nvalidation_shards = 1\n'
    (voices / "tiny" / "recipe.toml").write_text(recipe + more)
    others = [f"Nobody had seen the {thing} by the river." for thing in "letter kettle stove boat child house".split()]
    texts.write_text(given["texts"].read_text() + "\n".join(others) + "\n")
    asked = {name: value for name, value in given.items() if name != "speakers"}
    monkeypatch.setattr(prompts, "resynthesised", lambda _, sounds: [(pcm * 0, rate_hz) for pcm, rate_hz in sounds])
    with pytest.raises(BadVoice, match="no pitch through the vocoder"):
        eval_prompts(PromptSetting(**asked | {"voices": voices, "texts": texts}, references=6))
    monkeypatch.setattr(prompts, "resynthesised", lambda _, sounds: sounds)  # its vocoder is noise
    out = eval_prompts(PromptSetting(**asked | {"voices": voices, "texts": texts}, references=6))
    assert out["teacher_right"] == 1.0, "a woman and a man"
    slt, rms = out["speakers"]["slt"], out["speakers"]["rms"]
    assert slt["target_pitch_hz"] > out["middle_pitch_hz"] > rms["target_pitch_hz"] > 60.0
    assert (slt["n"], slt["unseen"], rms["n"], rms["unseen"]) == (1, False, 1, True)
    assert sum(slt["nearest"].values()) == 1 and slt["right"] == slt["nearest"].get("slt", 0)
    assert slt["nearer"]["share"] in (0.0, 1.0) and out["unseen"]["nearer"]["share"] == rms["nearer"]["share"]
    assert out["unseen"]["p_by_chance"] == (0.5 if rms["right"] else 1.0) and out["seen"]["n"] == 1
    json.dumps(plain(out), allow_nan=False)
    prompts.show(out)
    assert "rms, unseen" in capsys.readouterr().out
    with pytest.raises(BadOption, match="each of 2 speakers says one or more"):
        eval_prompts(PromptSetting(**asked | {"voices": voices, "texts": texts, "count": 1}, references=6))
    with pytest.raises(BadFile, match="2 to be spoken and 7 as references"):
        eval_prompts(PromptSetting(**asked | {"voices": voices, "texts": texts}, references=7))


def test_all_voices_are_in_one_table(given, steady, tmp_path, capsys):
    from studio.bench.evaluation.families import FamiliesSetting, eval_families, show

    shutil.copytree(given["voices"], tmp_path / "voices")
    shutil.move(tmp_path / "voices" / "tiny", tmp_path / "voices" / "other")
    card = tmp_path / "voices" / "other" / "card.json"
    card.write_text(json.dumps(json.loads(card.read_text()) | {"name": "other"}))
    write_tiny_voice(tmp_path / "voices", family="dsm", speakers=("slt", "rms"), eos_bias=4.0)
    (tmp_path / "voices" / "tiny" / "curves.jsonl").write_text('{"step": 10}\n{"step": 12, "validation": {}}\n')
    asked = {**given, "voices": tmp_path / "voices", "count": 1}
    out = eval_families(FamiliesSetting(**asked, predicted=1, timed=1, seams=2, only=("tiny",)))
    (one,) = out["voices"].values()
    assert [(row["speaker"], row["setting"]) for row in one["rows"]] == [
        ("slt", name) for name in ("teacher", "dMel", "guidance=1.0", "guidance=2.0")
    ]
    assert one["family"] == "dsm" and one["steps"] == 12 and one["timed"].keys() == {"guidance=1.0", "guidance=2.0"}
    assert one["rows"][0]["mos"]["value"] > 0 and one["timed"]["guidance=1.0"]["rtf"] > 0
    files = [tmp_path / "voices" / "tiny" / name for name in ("dsm.safetensors", "bpe.json")]
    assert one["bytes"] == sum(path.stat().st_size for path in files), "all voices share the vocoder"
    assert one["seams"] == {"setting": "", "n": 2, "found": None}, "every word of it is a segment"
    show(out)
    printed = capsys.readouterr().out
    assert "tiny slt guidance=2.0" in printed and "First audio" in printed and "Seams against" in printed
    json.dumps(plain(out), allow_nan=False)
    show(out | {"voices": {"tiny": one, "again": one | {"steps": None}}})
    printed = capsys.readouterr().out
    assert printed.count("slt, teacher") == printed.count("slt, dMel") == 1, "the same for every voice"
    assert "again slt guidance=2.0" in printed and printed.index("slt, dMel") < printed.index("tiny slt guidance=1.0")
    with pytest.raises(BadOption, match=r"there is no voice 'wren'.*there are other, tiny"):
        eval_families(FamiliesSetting(**asked, only=("wren",)))


def test_voices_are_compared_by_their_common_speakers(given, steady, tmp_path, monkeypatch):
    from studio.bench.evaluation import families

    for number, speakers in enumerate((("slt", "rms"), ("rms", "awb"), ("awb", "bdl"))):
        write_tiny_voice(tmp_path / "voices", speakers=speakers)
        shutil.move(tmp_path / "voices" / "tiny", tmp_path / "voices" / f"tiny{number}")
        card = tmp_path / "voices" / f"tiny{number}" / "card.json"
        card.write_text(json.dumps(json.loads(card.read_text()) | {"name": f"tiny{number}"}))
    asked = {**given, "voices": tmp_path / "voices", "count": 1, "speakers": ()}
    heard: list[tuple[str, ...]] = []
    monkeypatch.setattr(families, "_voice", lambda setting, card, folder: (heard.append(setting.speakers), ({}, {}))[1])
    setting = families.FamiliesSetting(**asked, quiet=True)
    families.eval_families(replace(setting, only=("tiny0", "tiny1")))
    families.eval_families(replace(setting, only=("tiny2",)))
    assert heard == [("rms",), ("rms",), ("awb", "bdl")]
    with pytest.raises(BadOption, match="no speaker in common"):
        families.eval_families(setting)


def test_missing_teacher_has_no_bar(tmp_path, monkeypatch):
    write_tiny_voice(tmp_path)
    recipe = 'name = "tiny"\ntitle = "Tiny"\nseed = 1\ntemperature = 0.7\n[corpus]\nteacher = "kokoro"\n'
    more = 'speakers = ["one", "two"]\nshard_sentences = 1\nvalidation_shards = 1\n'
    (tmp_path / "tiny" / "recipe.toml").write_text(recipe + more)
    monkeypatch.delenv("STUDIO_KOKORO", raising=False)
    open_teacher.cache_clear()
    with evaluation_run(Setting(voices=tmp_path, quiet=True)) as at:
        with pytest.raises(BadFile, match="set STUDIO_KOKORO"):
            at.teacher("one", ["Yes."])
        assert at.progress.tasks == []


@pytest.fixture
def teacher() -> Kokoro:
    teacher = Kokoro()
    teacher.__dict__["net"] = FakeKokoro()
    return teacher


def test_figures_of_speakers(teacher, capsys):
    heard = iter([TEXTS, ["The old harbour was quite.", TEXTS[1]]])
    levels = []

    def predict(pcm, rate_hz):
        levels.append(active_level_db(pcm, rate_hz))
        return 4.0 + 0.1 * (len(levels) % 2)

    figures = compare_speakers(teacher, ["af_heart", "am_michael"], TEXTS, lambda sounds: next(heard), predict)
    first, second = figures["speakers"]
    assert (first["speaker"], first["texts"], first["wer"]) == ("af_heart", 2, 0.0)
    assert second["wer"] == pytest.approx(1 / 11)
    assert first["mos"] == pytest.approx(4.05) and first["mos_least"] == pytest.approx(4.0)
    assert first["gain_db"] == pytest.approx(-18 - np.mean(levels[:2]))
    assert 1 < first["words_each_s"] < 12 and first["pitch_hz"][1] <= first["pitch_hz"][0] <= first["pitch_hz"][2]
    assert "af_heart" in capsys.readouterr().out


def test_bands_are_measured_relative_to_speech():
    """Two equal tones: 5 kHz is as high in its band of 2 kHz as 1 kHz in the 2.7 kHz of speech."""
    at = np.arange(48_000) / 24_000
    sound = 0.1 * np.sin(2 * np.pi * 1000 * at) + 0.1 * np.sin(2 * np.pi * 5000 * at)
    four, *rest = bands_db(sound, 24_000)
    assert four == pytest.approx(10 * np.log10(2.7 / 2.0), abs=0.3)
    assert max(rest) < -60


def test_silent_speaker(teacher):
    with pytest.raises(BadText, match="af_heart"):
        compare_speakers(teacher, ["af_heart"], ["漢字"], lambda sounds: [], lambda pcm, rate_hz: 0.0)
