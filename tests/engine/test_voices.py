"""Voice folders that are missing, damaged or of another kind: each says what failed and what to do."""

import json
import shutil

import pytest
from tinyvoice import write_tiny_voice

from studio.core.cards import read_cards
from studio.core.errors import BadOption, BadVoice, Busy, Closed
from studio.core.events import Ended, Failed
from studio.core.folders import DEFAULT_VOICE
from studio.core.ports import SpeakRequest
from studio.engine.admission import EngineLimits
from studio.engine.engine import open_engine
from studio.engine.families import base
from studio.text.normalise import best


@pytest.fixture
def folder(tmp_path):
    """A tiny voice that a test may damage."""
    return write_tiny_voice(tmp_path)


def edit_card(folder, **change):
    card = json.loads((folder / "card.json").read_text())
    (folder / "card.json").write_text(json.dumps(card | change))


def opened(folder, device="cpu", **options):
    return open_engine(folder.parent, best(), device=device, threads=1, **options)


def test_a_changed_weight_file_is_refused(folder):
    path = folder / "speakstream.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(BadVoice, match="sha256 differs"):
        opened(folder)


def test_the_engine_says_which_voices_are_loaded_and_what_cannot_be_is_not_waited_for(folder):
    for name in ("later", "damaged"):
        edit_card(shutil.copytree(folder, folder.parent / name), name=name)
    (folder.parent / "damaged" / "speakstream.safetensors").write_bytes(b"not these")
    engine = opened(folder, voice_names=["tiny", "later", "damaged"])
    assert [engine.is_loaded(name) for name in ("tiny", "later", "damaged")] == [True, False, False]
    engine.open(SpeakRequest(voice="later")).cancel()
    with pytest.raises(BadVoice):
        engine.open(SpeakRequest(voice="damaged"))
    assert all(engine.is_loaded(name) for name in ("tiny", "later", "damaged"))
    engine.close()


def test_voices_of_one_folder_share_a_vocoder(folder):
    """A voice whose vocoder lies in the folder beside it speaks; with another of that name there it does not."""
    beside = folder.parent / "beside" / "sourcefilter.safetensors"
    shutil.copytree(folder, beside.parent)
    (folder / "sourcefilter.safetensors").unlink()
    edit_card(beside.parent, name="beside")
    engine = opened(folder, voice_names=["tiny"])
    engine.close()
    data = bytearray(beside.read_bytes())
    data[-1] ^= 1
    beside.write_bytes(data)
    with pytest.raises(BadVoice, match=r"no file sourcefilter\.safetensors"):
        opened(folder, voice_names=["tiny"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"unheard_of": 1}, "unknown keys: unheard_of"),
        ({"family": "whisper"}, "unknown family 'whisper'"),
        ({"vocoder": "griffin-lim"}, "has no vocoder 'griffin-lim'"),
    ],
)
def test_a_card_that_does_not_fit(folder, change, message):
    edit_card(folder, **change)
    with pytest.raises(BadVoice, match=message):
        opened(folder)


def test_weights_of_another_size_do_not_load(folder):
    edit_card(folder, config=json.loads((folder / "card.json").read_text())["config"] | {"width": 32})
    with pytest.raises(BadVoice, match="does not fit"):
        opened(folder)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "sourcefilter.safetensors").unlink(), r"no file sourcefilter\.safetensors"),
        (lambda folder: (folder / "card.json").write_text("{"), "not valid JSON"),
        # It would be found by one name and loaded by the other.
        (lambda folder: folder.rename(folder.parent / "copy"), "copy is of a voice .tiny.*rename the folder to tiny"),
    ],
    ids=["no weights", "no JSON", "another voice's folder"],
)
def test_a_folder_that_is_no_voice(folder, damage, message):
    damage(folder)
    with pytest.raises(BadVoice, match=message):
        opened(folder)


def test_an_empty_folder_says_where_voices_are(tmp_path):
    with pytest.raises(BadVoice, match="no voices"):
        open_engine(tmp_path, best())


def test_requests_that_cannot_be_met(folder):
    whole = r"m cannot be .*; give a whole number from 1 to 6"
    refused: list[tuple[type[Exception], str, dict]] = [
        (BadVoice, "no voice 'lark'", {"voice": "lark"}),
        (BadVoice, "no speaker 'three'", {"voice": "tiny:three"}),
        (BadOption, "1 <= n <= m", {"options": {"m": 1, "n": 2}}),
        *((BadOption, whole, {"options": {"m": wrong}}) for wrong in (0, 7, 1.5, "3", True)),
        (BadOption, "there is no option 'speed'", {"options": {"speed": 2}}),
        *((BadOption, "temperature", {"temperature": wrong}) for wrong in (9.0, float("nan"))),
        *((BadOption, "seed", {"seed": wrong}) for wrong in (-1, 2**53)),
    ]
    engine = opened(folder, slots=1, limits=EngineLimits(queue=0))
    try:
        for error, told, request in refused:
            with pytest.raises(error, match=told):
                engine.open(SpeakRequest(**request))
        first = engine.open(SpeakRequest())
        assert engine.free_slots() == 0
        with pytest.raises(Busy, match="slots are taken"):
            engine.open(SpeakRequest())
        with pytest.raises(BadOption, match="1 <= n <= m"):
            first.set_options({"n": 4})
        first.cancel()
        assert isinstance(list(first.events())[-1], Ended)
        with pytest.raises(Closed, match="takes no more text"):
            first.push_text("late ")
        with pytest.raises(BadOption, match="no device"):
            opened(folder, device="tpu")
    finally:
        engine.close()


def test_an_error_in_one_utterance_leaves_the_others_alone(folder, monkeypatch):
    engine = opened(folder)
    try:
        broken, sound = engine.open(SpeakRequest()), engine.open(SpeakRequest())
        sound.push_text("one two three")
        monkeypatch.setattr(broken, "next_input", lambda: 1 / 0)
        sound.end()
        assert isinstance(list(sound.events())[-1], Ended)
        last = list(broken.events())[-1]
        assert isinstance(last, Failed) and last.code == "internal" and "ZeroDivisionError" in last.message
        assert len(voice_slots(engine)) == 4
    finally:
        engine.close()


def voice_slots(engine) -> list[int]:
    """Free slots of the voice, once the engine's thread has seen the ends."""
    return engine.voice("tiny").free_slots


def test_a_closed_engine_fails_what_still_speaks(folder):
    engine = opened(folder)
    utterance = engine.open(SpeakRequest())
    utterance.push_text("one two ")
    engine.close()
    last = list(utterance.events())[-1]
    assert isinstance(last, Failed) and last.code == "closed"
    with pytest.raises(Busy):
        engine.open(SpeakRequest())


def test_the_studios_default_voice_is_the_first_of_a_folder(folder):
    for name in ("ant", DEFAULT_VOICE, "bee"):
        edit_card(shutil.copytree(folder, folder.parent / name), name=name)
    shutil.rmtree(folder)
    assert [*read_cards(folder.parent)] == [DEFAULT_VOICE, "ant", "bee"]


def test_family_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lookup reads the metadata of all installed packages: 4 ms for each voice of a list that a page asks for."""
    first = base.family_info("s5")
    monkeypatch.setattr(base, "entry_points", lambda **_: pytest.fail("it was looked up again"))
    assert base.family_info("s5") is first
