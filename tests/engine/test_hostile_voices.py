"""Voice folders that anybody may have made: what their cards say is not believed, and no file is waited for."""

import contextlib
import json
import os
import shutil
import threading
import time

import pytest
import torch
from safetensors.torch import load_file, save_file
from tinyvoice import write_tiny_voice
from typer.testing import CliRunner

from studio.cli import cli
from studio.core.cards import MAX_WEIGHTS_BYTES, find_file, read_card, read_cards, sha256_of
from studio.core.errors import BadVoice
from studio.core.folders import VOICES
from studio.engine.engine import open_engine
from studio.engine.vocoders.module import VOCODERS, build_vocoder
from studio.text.normalise import best

HUGE = 10**9


@pytest.fixture
def folder(tmp_path):
    return write_tiny_voice(tmp_path / "voices")


def changed(folder, change):
    card = json.loads((folder / "card.json").read_text())
    change(card)
    (folder / "card.json").write_text(json.dumps(card))


def opened(folder):
    return open_engine(folder.parent, best(), device="cpu", threads=1)


@pytest.mark.parametrize("of", ["config", "vocoders"])
def test_a_card_that_asks_for_more_than_its_files_hold_takes_no_memory(folder, of):
    def change(card):
        part = card["config"] if of == "config" else card["vocoders"]["sourcefilter"]
        part["hidden" if of == "config" else "width"] = 150_000

    changed(folder, change)
    began_s = time.monotonic()
    with pytest.raises(BadVoice, match="more numbers than its files hold"):
        opened(folder)
    assert time.monotonic() - began_s < 10


def test_what_a_card_names_besides_its_weights_makes_no_net_larger(folder):
    with (folder / "pad.bin").open("wb") as file:
        file.truncate(1 << 40)
    changed(folder, lambda card: card["sha256"].update({"pad.bin": "0" * 64}))
    changed(folder, lambda card: card["config"].update(hidden=20_000))
    with pytest.raises(BadVoice, match="more numbers than its files hold"):
        opened(folder)


@pytest.mark.parametrize("name", ["speakstream.safetensors", "sourcefilter.safetensors"])
def test_no_file_larger_than_any_voice_is_read(folder, name):
    with (folder / name).open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(BadVoice, match=rf"{name} is larger than 4,294,967,296 bytes"):
        opened(folder)


@pytest.mark.parametrize("has_card", [False, True])
def test_what_lies_in_another_folder_is_not_read_without_a_card_that_names_it(folder, has_card):
    """A voice finds its vocoder beside it, and what else is called so there takes no time."""
    other = folder.parent / "aaa"
    shutil.copytree(folder, folder.parent / "giver")
    (folder / "sourcefilter.safetensors").unlink()
    other.mkdir()
    if has_card:
        shutil.copy(folder / "card.json", other)
    for folder_of, change in ((folder.parent / "giver", {"name": "giver"}), (other, {"name": "aaa", "sha256": {}})):
        if (folder_of / "card.json").is_file():
            changed(folder_of, lambda card, change=change: card.update(change))
    with (other / "sourcefilter.safetensors").open("wb") as file:
        file.truncate(MAX_WEIGHTS_BYTES)
    began_s = time.monotonic()
    assert find_file(folder, read_card(folder), "sourcefilter.safetensors").parent.name == "giver"
    assert time.monotonic() - began_s < 1


def test_an_encoding_larger_than_any_is_not_read(tmp_path):
    folder = write_tiny_voice(tmp_path / "voices", family="ist")
    with (folder / "bpe.json").open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(BadVoice, match=r"bpe\.json differs from the file in the card"):
        opened(folder)


@pytest.mark.parametrize(
    ("vocoder", "sizes"),
    [
        ("sourcefilter", {"envelope_bands": 4000, "fft": 60_000}),
        ("sourcevocos", {"envelope_bands": 4000, "fft": 60_000, "fine_width": 16}),
        ("sourcefilter", {"envelope_bands": 100_000, "aperiodicity_bands": 100_000}),
        ("vocstream", {"upsampler_cycle": 25}),
        ("vocstream", {"generator_cycle": 200_000, "generator_layers": 256}),
        ("hifigan", {"dilations": [200_000]}),
    ],
)
def test_what_no_file_bounds_is_bounded_before_it_is_made(monkeypatch, vocoder, sizes):
    monkeypatch.setattr(VOCODERS[vocoder], "__init__", lambda *_: pytest.fail("built"))
    with pytest.raises(BadVoice, match=f"vocoder '{vocoder}': .* numbers that no file holds; 4,000,000 are the most"):
        build_vocoder(vocoder, sizes)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda card: card["config"].update(heads=0), "heads cannot be 0; it is a whole number from 1 to"),
        (lambda card: card["config"].update(layers=HUGE), "layers cannot be 1000000000"),
        (lambda card: card["config"].update(layers=10**4000), "layers cannot be a number that long"),
        (lambda card: card["config"].update(layers=True), "layers cannot be True"),
        (lambda card: card["config"].update(longest_word_frames=0), "longest_word_frames cannot be 0"),
        (lambda card: card["config"].update(context_frames=HUGE), "context_frames cannot be 1000000000"),
        (lambda card: card["config"].update(context_frames=10), "kept_frames is more than context_frames"),
        (lambda card: card["config"].update(kept_frames=-1), "kept_frames cannot be -1"),
        (lambda card: card["config"].update(unheard_of=1), "unknown keys: unheard_of"),
        (lambda card: card["config"].pop("width"), "it has no width"),
        (lambda card: card["options"][1].update(name="zz"), "has no option 'zz'"),
        (lambda card: card.update(frame_samples=1), "another rate, frame or phase"),
        (lambda card: card.update(sample_rate_hz=8000), "another rate, frame or phase"),
        (lambda card: card.update(phase=100_000), "another rate, frame or phase"),
        (lambda card: card["vocoders"]["sourcefilter"].update(sample_rate_hz=8000), "a vocoder .* another rate"),
    ],
)
def test_sizes_that_speak_nonsense_are_refused(folder, change, told):
    changed(folder, change)
    with pytest.raises(BadVoice, match=told):
        opened(folder)


@pytest.mark.parametrize(
    "name", ["../../secret", "/etc/passwd", "", "**", "a/b", "x" * 5000, "?.safetensors", ".hidden"]
)
def test_a_card_names_files_of_its_folder_alone(folder, name):
    changed(folder, lambda card: card["sha256"].update({name: "0" * 64}))
    with pytest.raises(BadVoice, match=r"card\.json: sha256 of the card is .* files in the voice's folder"):
        read_card(folder)


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_pipes_and_devices_are_no_weights(folder, kind, beside):
    path = folder / "sourcefilter.safetensors"
    path.unlink()
    if beside:
        path = folder.parent / "other" / path.name
        path.parent.mkdir()
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    with pytest.raises(BadVoice, match=r"has no file sourcefilter\.safetensors"):
        opened(folder)
    told = CliRunner().invoke(cli, ["voices", "info", "--voices", str(folder.parent)])
    assert told.exit_code == 0 and "sourcefilter.safetensors" not in told.output


def test_a_card_that_is_no_object_or_no_text_names_its_file(folder):
    for text, told in (("[]", r"the card is \[\]; it is an object"), (None, "title of the card is")):
        if text is None:
            changed(folder, lambda card: card.update(title="\ud800"))
        else:
            kept = (folder / "card.json").read_text()
            (folder / "card.json").write_text(text)
        with pytest.raises(BadVoice, match=rf"tiny/card\.json: .*{told}"):
            read_cards(folder.parent)
        (folder / "card.json").write_text(kept)


@pytest.mark.parametrize(
    ("voice", "of", "sizes"),
    [
        ("linnet", "config", {"layers": HUGE, "width": 0, "heads": 1, "hidden": 0}),
        ("linnet", "config", {"prompt_frames": 20_000_000}),
        ("linnet", "config", {"prompt_tokens": 200_000_000}),
        ("linnet", "config", {"letter_frames": "x"}),
        ("linnet", "config", {"most_tokens": -1}),
        ("siskin", "config", {"depth_layers": HUGE, "depth_width": 0, "depth_heads": 1, "depth_hidden": 0}),
        ("siskin", "config", {"extract_frames": 20_000_000}),
        ("siskin", "config", {"tail_frames": HUGE}),
        ("siskin", "config", {"look_ahead_words": 2.5}),
        ("siskin", "config", {"depth_shared": 1}),
        ("pipit", "config", {"convolutions": HUGE, "width": 0}),
        ("pipit", "config", {"encoder_dropout": "x"}),
        ("pipit", "config", {"prenet_dropout": 1.0}),
        ("pipit", "config", {"longest_word_frames": 1.5}),
        ("finch", "config", {"encoder_layers": 10**6, "width": 2, "heads": 1, "hidden": 1}),
        ("finch", "config", {"reference_frames": 20_000_000}),
        ("finch", "config", {"context_frames": None}),
        ("finch", "config", {"kept_frames": 601}),
        ("finch", "config", {"encoder_mask": "x"}),
        ("finch", "config", {"alignment_scale": float("nan")}),
        ("finch", "vocoder", {"blocks": HUGE, "width": 0}),
        ("finch", "vocoder", {"upsampling": "x"}),
    ],
)
def test_what_no_net_can_be_is_refused_before_it_is_built(tmp_path, voice, of, sizes):
    folder = tmp_path / "voices" / voice
    shutil.copytree(VOICES / voice, folder)
    shutil.copytree(VOICES / "wren", tmp_path / "voices" / "wren")
    changed(folder, lambda card: (card["config"] if of == "config" else card["vocoders"]["sourcevocos"]).update(sizes))
    began_s = time.monotonic()
    with pytest.raises(BadVoice, match=f"the card of '{voice}' describes no net|voice '{voice}': vocoder"):
        open_engine(folder.parent, best(), device="cpu", threads=1, voice_names=[voice])
    assert time.monotonic() - began_s < 5


def test_numbers_of_another_kind_and_a_silence_that_is_none_are_refused(folder):
    path = folder / "speakstream.safetensors"
    tensors = load_file(path)
    kept = tensors["silence"]
    for silence, told in ((torch.full_like(kept, 200), "a level of 200"), (kept.float(), "numbers of another kind")):
        save_file({**tensors, "silence": silence}, path)
        changed(folder, lambda card: card["sha256"].update({path.name: sha256_of(path)}))
        with pytest.raises(BadVoice, match=rf"speakstream\.safetensors.*{told}"):
            opened(folder)


def test_a_damaged_card_keeps_nobody_else_from_speaking(folder, caplog):
    for name, text in (("broken", "{"), ("other", (folder / "card.json").read_text())):
        (folder.parent / name).mkdir()
        (folder.parent / name / "card.json").write_text(text)
    assert [*read_cards(folder.parent)] == ["tiny"]
    first, second = (one.getMessage() for one in caplog.records)
    assert first.startswith("left out: ") and "broken/card.json is not valid JSON" in first
    assert "the card in" in second and "is of a voice 'tiny'" in second


def test_a_damaged_first_voice_keeps_nobody_else_from_speaking(folder, caplog):
    first = shutil.copytree(folder, folder.parent / "ant")
    changed(first, lambda card: card.update(name="ant"))
    os.truncate(first / "speakstream.safetensors", 1000)
    with contextlib.closing(opened(folder)) as engine:
        assert [card.name for card in engine.cards()] == ["tiny"]
    assert "left out: " in caplog.text and "ant/speakstream.safetensors is not the file" in caplog.text
    with pytest.raises(BadVoice, match=r"ant/speakstream\.safetensors is not the file"):
        open_engine(folder.parent, best(), device="cpu", threads=1, voice_names=["ant", "tiny"])
    os.truncate(folder / "speakstream.safetensors", 1000)
    with pytest.raises(BadVoice, match=r"ant/speakstream\.safetensors is not the file"):
        opened(folder)


def test_a_voice_that_is_being_loaded_holds_up_no_other(folder, monkeypatch):
    with contextlib.closing(opened(folder)) as engine:
        shutil.copytree(folder, folder.parent / "slow")
        loading, loaded = threading.Event(), threading.Event()

        def slowly(*_args):
            loading.set()
            assert loaded.wait(10)
            raise BadVoice("it never came", "")

        monkeypatch.setattr(engine._voices, "load", slowly)
        card = engine._voices.cards["slow"] = engine._voices.cards["tiny"]
        engine._voices.voices["slow"] = card, folder.parent / "slow"
        waiting = threading.Thread(target=_try, args=(engine, "slow"))
        waiting.start()
        assert loading.wait(10)
        assert engine.voice("tiny").card.name == "tiny"
        loaded.set()
        waiting.join(10)


def test_a_voice_that_cannot_be_loaded_is_tried_once(folder, monkeypatch):
    with contextlib.closing(opened(folder)) as engine:
        tried = []

        def damaged(*_args):
            tried.append(1)
            raise BadVoice("it is damaged", "fetch it again")

        monkeypatch.setattr(engine._voices, "load", damaged)
        card = engine._voices.cards["other"] = engine._voices.cards["tiny"]
        engine._voices.voices["other"] = card, folder
        for _ in range(3):
            with pytest.raises(BadVoice, match="it is damaged; fetch it again"):
                engine.voice("other")
        assert len(tried) == 1 and engine.voice("tiny").card.name == "tiny"


def _try(engine, name):
    with contextlib.suppress(BadVoice):
        engine.voice(name)


@pytest.mark.parametrize("sign", ["\x1b[2J", "\n", "\u202e", "\x9b"])
def test_what_a_terminal_obeys_is_no_title_and_no_speaker(folder, sign):
    for change in ({"title": f"a{sign}b"}, {"speakers": [f"a{sign}b"], "default_speaker": ""}, {"speakers": "ab"}):
        kept = (folder / "card.json").read_text()
        changed(folder, lambda card, change=change: card.update(change))
        with pytest.raises(BadVoice, match=f"{next(iter(change))} of the card is"):
            read_card(folder)
        (folder / "card.json").write_text(kept)
