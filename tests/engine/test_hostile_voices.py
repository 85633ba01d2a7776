"""Voice folders that anybody may have made: what their cards say is not believed, and no file is waited for."""

import json
import os
import time

import pytest
from tinyvoice import write_tiny_voice
from typer.testing import CliRunner

from studio.cli import cli
from studio.core.cards import read_card, read_cards
from studio.core.errors import BadVoice
from studio.engine.loop import open_engine
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
        part["layers" if of == "config" else "blocks"] = HUGE

    changed(folder, change)
    began_s = time.monotonic()
    with pytest.raises(BadVoice, match="more numbers than its files hold"):
        opened(folder)
    assert time.monotonic() - began_s < 10


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda card: card["config"].update(heads=0), "describes no net that can be built"),
        (lambda card: card["config"].update(longest_word_frames=0), "whole numbers above 0"),
        (lambda card: card["config"].update(context_frames=HUGE), "whole numbers above 0"),
        (lambda card: card["config"].update(kept_frames=-1), "whole numbers above 0"),
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
    for text, told in (("[]", "is no object"), (None, "title of the card is")):
        if text is None:
            changed(folder, lambda card: card.update(title="\ud800"))
        else:
            kept = (folder / "card.json").read_text()
            (folder / "card.json").write_text(text)
        with pytest.raises(BadVoice, match=rf"tiny/card\.json: .*{told}"):
            read_cards(folder.parent)
        (folder / "card.json").write_text(kept)
