"""Speakers added to finch from a recording: consent, what the recording must say, disk, other processes, removal."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from studio.core.cards import Card
from studio.core.clips import to_float, wav_bytes
from studio.core.errors import BadOption, BadText, BadVoice, NotStored
from studio.core.folders import VOICES
from studio.core.ports import SpeakRequest
from studio.core.sound_files import read_mono
from studio.core.speakers import (
    CONSENT,
    MAX_SPEAKERS,
    REFERENCE,
    TENSORS,
    AddedSpeaker,
    BadRecording,
    NoConsent,
    SpeakerRequest,
    SpeakerStore,
    SupportsSpeakers,
    sound_comment,
)
from studio.core.speaking import speak_once
from studio.core.traces.trace import Trace, open_trace
from studio.core.traces.trace_writer import save_trace
from studio.engine.engine import LocalEngine, open_engine
from studio.engine.families.base import SupportsReferences
from studio.engine.request.request import EngineRequest
from studio.engine.speakers import AddedSpeakers
from studio.engine.tokenizers import dmel
from studio.engine.voice_store import VoiceStore
from studio.engine.voices import find_voices
from studio.measure.references import clean
from studio.text.normalise import best

NOW = "2026-11-30T10:00:00Z"
TEXT = "The rain has stopped, and the birds are singing in the old garden again this morning."
OTHER = "Please call me when the train arrives at the station near the big blue house tomorrow."


def engine_over(folder: Path) -> LocalEngine:
    return open_engine(VOICES, best(), "cpu", ["finch"], slots=1, speakers=folder)


@pytest.fixture(scope="module")
def spoken() -> Trace:
    """The recording: four seconds of finch's ada."""
    with closing(open_engine(VOICES, best(), "cpu", ["finch"], slots=1)) as engine:
        return speak_once(engine, SpeakRequest("finch:ada"), TEXT)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "speakers"


@pytest.fixture
def engine(folder: Path) -> Iterator[LocalEngine]:
    with closing(engine_over(folder)) as engine:
        yield engine


@pytest.fixture
def wanted(spoken: Trace) -> SpeakerRequest:
    made = clean(spoken.pcm, spoken.rate_hz, "0" * 64)
    return SpeakerRequest("finch", "eve", TEXT, made.samples, made.rate_hz, made.sha256, has_consent=True)


def test_speaker_is_offered_at_once_and_says_whose_it_is(
    engine: LocalEngine, folder: Path, wanted: SpeakerRequest, tmp_path: Path
) -> None:
    assert isinstance(engine.recomputer(), SupportsSpeakers)
    assert [one.name for one in engine.recomputer().speakers().voices()] == ["finch"]
    before = speak_once(engine, SpeakRequest("finch:miles"), "Good morning.")
    added = engine.recomputer().speakers().add(replace(wanted, consent_by="Eve, by letter"))
    assert 1.4 <= added.length_s <= 3.0 and added.consent_by == "Eve, by letter"
    assert engine.cards()[0].speakers[-1] == "eve" and engine.cards()[0].speakers_default_first[0] == "miles"
    trace = speak_once(engine, SpeakRequest("finch:eve"), "Good morning.")
    assert len(trace.pcm) > 12_000 and not np.array_equal(trace.pcm, before.pcm)
    assert trace.meta[REFERENCE]["consent_at"] == added.consent_at
    assert REFERENCE not in before.meta
    assert np.array_equal(speak_once(engine, SpeakRequest("finch:miles"), "Good morning.").pcm, before.pcm)
    comment = f"Synthetic speech: voice finch:eve, Streaming-TTS Studio. The speaker was cloned from a recording with \
consent given on {added.consent_at[:10]}."
    assert sound_comment(trace.meta) == comment
    save_trace(trace, tmp_path / "eve.trace")
    stored = open_trace(tmp_path / "eve.trace")
    assert np.array_equal(stored.pcm, trace.pcm) and sound_comment(stored.meta) == comment
    assert sorted(path.name for path in folder.glob("*/*")) == [TENSORS, "speaker.json"], "no recording is stored"


def test_another_process_sees_it_and_a_removal(engine: LocalEngine, folder: Path, wanted: SpeakerRequest) -> None:
    with closing(engine_over(folder)) as other:
        first = speak_once(other, SpeakRequest("finch:miles"), "Good morning.")
        engine.recomputer().speakers().add(wanted)
        mine = speak_once(engine, SpeakRequest("finch:eve"), "Good morning.")
        assert np.array_equal(speak_once(other, SpeakRequest("finch:eve"), "Good morning.").pcm, mine.pcm)
        other.recomputer().speakers().remove("finch", "eve")
        with pytest.raises(BadVoice, match="no speaker 'eve'"):
            engine.open(SpeakRequest("finch:eve"))
        assert "eve" not in engine.cards()[0].speakers and not [*folder.iterdir()]
        engine.recomputer().speakers().add(replace(wanted, recording=b"RIFF"))  # the same name again
        assert np.array_equal(speak_once(other, SpeakRequest("finch:eve"), "Good morning.").pcm, mine.pcm)
        assert [path.read_bytes() for path in folder.glob("*/recording.wav")] == [b"RIFF"]
        assert np.array_equal(speak_once(other, SpeakRequest("finch:miles"), "Good morning.").pcm, first.pcm)


def test_attention_of_its_traces_is_recomputed(engine: LocalEngine, wanted: SpeakerRequest) -> None:
    engine.recomputer().speakers().add(wanted)
    trace = speak_once(engine, SpeakRequest("finch:eve"), "Good morning to you.")
    assert engine.recomputer().compute_attention(trace).difference(trace.p_eos) < 1e-3


def test_consent_is_required_before_anything_else(engine: LocalEngine, folder: Path, wanted: SpeakerRequest) -> None:
    with pytest.raises(NoConsent, match="consent is missing"):
        engine.recomputer().speakers().add(replace(wanted, has_consent=False, voice="nobody"))
    assert not folder.exists()


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"voice": "wren"}, BadVoice, "speakers cannot be added to 'wren'"),
        ({"name": "miles"}, BadOption, "has a speaker 'miles' already"),
        ({"name": "a:b"}, BadOption, "is not allowed"),
        ({"name": ""}, BadOption, "is not allowed"),
        ({"name": "x" * 41}, BadOption, "is not allowed"),
        ({"consent_by": "x" * 201}, BadOption, "who confirms the consent is too long"),
        ({"text": "\x00"}, BadOption, "the text is too long, or has control"),
        ({"text": " "}, BadText, "the text of the recording is missing"),
        ({"text": OTHER}, BadRecording, "do not match"),
        ({"text": TEXT * 5}, BadRecording, "too many for"),
    ],
)
def test_request_that_does_not_fit(
    engine: LocalEngine, folder: Path, wanted: SpeakerRequest, change: dict[str, str], error: type, match: str
) -> None:
    with pytest.raises(error, match=match):
        engine.recomputer().speakers().add(replace(wanted, **change))
    assert not [*folder.glob("*")]


def test_noise_is_not_what_the_text_says(engine: LocalEngine, wanted: SpeakerRequest) -> None:
    noise = np.random.default_rng(0).normal(0.0, 0.1, len(wanted.samples)).astype(np.float32)
    with pytest.raises(BadRecording, match="do not match"):
        engine.recomputer().speakers().add(replace(wanted, samples=noise))


@pytest.mark.parametrize("rate_hz", [16_000, 44_100, 48_000])
def test_usual_rates_are_resampled(engine: LocalEngine, spoken: Trace, wanted: SpeakerRequest, rate_hz: int) -> None:
    samples = dmel.resample(torch.from_numpy(to_float(spoken.pcm)), spoken.rate_hz, rate_hz).numpy()
    added = engine.recomputer().speakers().add(replace(wanted, samples=samples, rate_hz=rate_hz))
    assert 1.4 <= added.length_s <= 3.0


@pytest.mark.parametrize("damage", ["tensors", "record", "other"])
def test_damaged_files_leave_the_voice_its_other_speakers(
    engine: LocalEngine, folder: Path, wanted: SpeakerRequest, damage: str
) -> None:
    engine.recomputer().speakers().add(wanted)
    (stored,) = folder.iterdir()
    if damage == "tensors":
        (stored / TENSORS).write_bytes(b"{}")
    elif damage == "record":
        (stored / "speaker.json").write_text("[")
    else:
        record = json.loads((stored / "speaker.json").read_text())
        (stored / "speaker.json").write_text(json.dumps(record | {"length_s": "long"}))
    with closing(engine_over(folder)) as other:
        match = "are damaged" if damage == "tensors" else "no speaker 'eve'"
        with pytest.raises(BadVoice, match=match):
            other.open(SpeakRequest("finch:eve"))
        assert len(speak_once(other, SpeakRequest("finch:miles"), "Good morning.").pcm) > 12_000
        if damage == "tensors":
            other.recomputer().speakers().remove("finch", "eve")
            assert not [*folder.iterdir()]


def test_telephone_line_is_refused(engine: LocalEngine, spoken: Trace, wanted: SpeakerRequest) -> None:
    """It lacks what is above 4 kHz."""
    sound = dmel.resample(torch.from_numpy(to_float(spoken.pcm)), spoken.rate_hz, 8_000).numpy()
    with pytest.raises(BadRecording, match="noisy or telephone speech"):
        engine.recomputer().speakers().add(replace(wanted, samples=sound, rate_hz=8_000))


def test_voice_that_cannot_be_loaded_is_not_offered(folder: Path, wanted: SpeakerRequest) -> None:
    def load(card: Card, _: Path) -> Any:
        if card.name == "finch":
            raise BadVoice("finch is damaged", "remove it")
        return SimpleNamespace(card=card)

    store = VoiceStore(find_voices(VOICES, ["finch", "wren"], ""), load, SpeakerStore(folder))
    speakers = AddedSpeakers(store, best())
    assert [one.name for one in speakers.voices()] == ["finch"]
    store.load_first()
    assert speakers.voices() == []
    with pytest.raises(BadVoice, match="speakers cannot be added to"):
        speakers.add(wanted)


def test_without_a_folder_nothing_is_added(wanted: SpeakerRequest) -> None:
    with closing(open_engine(VOICES, best(), "cpu", ["finch"], slots=1)) as engine:
        with pytest.raises(BadOption, match="no folder of speakers is known; set STUDIO_SPEAKERS"):
            engine.recomputer().speakers().add(wanted)
        assert engine.recomputer().speakers().listed() == []


RECORD = AddedSpeaker("finch", "eve", "", 2.0, NOW, CONSENT, "", NOW, "0" * 64, "1" * 64)


def test_leftovers_of_killed_processes_are_deleted(folder: Path) -> None:
    store, day = SpeakerStore(folder), time.time() - 86_400
    for change in (lambda: store.add(RECORD, b"", b"RIFF"), lambda: store.remove("finch", "eve")):
        for name in (".0123456789abcdef.removed", ".0123456789abcdef", ".fedcba9876543210", ".git"):
            (folder / name).mkdir(parents=True)
            (folder / name / "recording.wav").write_bytes(b"RIFF")
        os.utime(folder / ".0123456789abcdef", (day, day))
        os.utime(folder / ".git", (day, day))
        change()
        hidden = {path.name for path in folder.glob(".*")}
        assert hidden == {".fedcba9876543210", ".git"}, "one that is being stored, and a folder of somebody else"
        for name in hidden:
            (folder / name / "recording.wav").unlink()
            (folder / name).rmdir()
    assert store.read() == {}


def test_removal_that_fails_names_what_remains(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SpeakerStore(folder)
    token = store.add(RECORD, b"", b"RIFF")

    def fails(path: Path, **_: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", fails)
        with pytest.raises(NotStored, match=rf"files of eve remain in .*{token}\.removed: Permission denied"):
            store.remove("finch", "eve")
    assert store.read() == {} and len([*folder.iterdir()]) == 1
    with pytest.raises(BadVoice, match="no added speaker"):
        store.remove("finch", "eve")
    assert not [*folder.iterdir()], "the second try deletes them"


@pytest.mark.parametrize(
    ("data", "name"),
    [(b"RIFF", "wav"), (b"fLaC", "flac"), (b"ID3\3", "mp3"), (b"\xff\xfb\0\0", "mp3"), (b"OggS", "ogg")],
)
def test_recording_is_stored_under_the_name_of_its_kind(folder: Path, data: bytes, name: str) -> None:
    token = SpeakerStore(folder).add(RECORD, b"", data)
    assert (folder / token / f"recording.{name}").read_bytes() == data


def test_own_speaker_has_no_consent_of_an_added_one_of_that_name(folder: Path) -> None:
    SpeakerStore(folder).add(replace(RECORD, name="miles"), b"", None)
    with closing(engine_over(folder)) as engine:
        trace = speak_once(engine, SpeakRequest("finch:miles"), "Good morning.")
        assert REFERENCE not in trace.meta and len(trace.pcm) > 12_000


def test_removal_during_an_open_does_not_remove_the_consent(
    engine: LocalEngine, wanted: SpeakerRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = engine.recomputer().speakers().add(wanted)
    begin = engine._new_request

    def removed_before(pending: Any) -> EngineRequest:
        if pending.speaker == "eve":
            engine.recomputer().speakers().remove("finch", "eve")
        return begin(pending)

    monkeypatch.setattr(engine, "_new_request", removed_before)
    trace = speak_once(engine, SpeakRequest("finch:eve"), "Good morning.")
    assert trace.meta[REFERENCE] == added.provenance
    with pytest.raises(BadVoice, match="no speaker 'eve'"):
        engine.open(SpeakRequest("finch:eve"))


FRAMES = np.full((8, dmel.CHANNELS), 5, np.uint8)
FITS = {"frames": FRAMES, "transcript": np.array([0, 5, 0, 6]), "words": np.array([0] * 4 + [1] * 4)}


@pytest.mark.parametrize(
    "change",
    [
        {"frames": FRAMES[:3]},
        {"frames": FRAMES[:, :40]},
        {"frames": FRAMES.astype(np.int64)},
        {"frames": FRAMES + 11},
        {"frames": np.tile(FRAMES, (20, 1)), "words": np.zeros(160, np.int64)},
        {"frames": FRAMES[:0], "words": np.zeros(0, np.int64)},
        {"transcript": np.array([5, 0, 6])},
        {"transcript": np.array([0, -5])},
        {"transcript": np.array([0, 10_000])},
        {"transcript": np.zeros(0, np.int64)},
        {"transcript": np.array([[0, 5]])},
        {"words": np.array([1] * 4 + [0] * 4)},
        {"words": np.full(8, 2)},
        {"words": np.full(8, -1)},
        {"words": np.zeros(7, np.int64)},
    ],
)
def test_stored_reference_must_fit_the_net(engine: LocalEngine, change: dict[str, np.ndarray]) -> None:
    family = engine.voice("finch").family
    assert isinstance(family, SupportsReferences)
    number = family.add_reference(FITS)
    assert number >= 12 and len(family.prompt(number)) == 8 + dmel.SILENCE_FRAMES
    with pytest.raises(BadVoice, match="does not fit this voice"):
        family.add_reference(FITS | change)
    with pytest.raises(BadVoice, match="does not fit this voice"):
        family.add_reference({name: FITS[name] for name in FITS if name not in change})


def test_there_are_so_many_at_most(folder: Path, engine: LocalEngine, wanted: SpeakerRequest) -> None:
    added = engine.recomputer().speakers().add(wanted)
    store = SpeakerStore(folder)
    for number in range(1, MAX_SPEAKERS):
        store.add(replace(added, name=f"eve{number}"), b"", None)
    with pytest.raises(BadOption, match=f"there are {MAX_SPEAKERS} added speakers"):
        engine.recomputer().speakers().add(replace(wanted, name="one more"))


def test_comment_is_in_the_file_and_the_samples_are_as_before(tmp_path: Path) -> None:
    pcm = np.arange(100, dtype=np.int16)
    path = tmp_path / "one.wav"
    for comment in ("", "odd", "even", "Sprecherin Zoë"):
        path.write_bytes(wav_bytes(pcm, 24_000, comment))
        data = path.read_bytes()
        assert int.from_bytes(data[4:8], "little") == len(data) - 8 and comment.encode() in data
        assert np.array_equal(read_mono(path)[0], pcm)


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        ({}, ""),
        ({"source": "recording", "voice": "finch"}, ""),
        ({"source": "forced", "voice": "finch"}, ""),
        ({"voice": "wren"}, "Synthetic speech: voice wren, Streaming-TTS Studio."),
        (
            {"voice": "a\x1b", REFERENCE: {"consent_at": "yesterday"}},
            "Synthetic speech: voice a, Streaming-TTS Studio.",
        ),
        ({"voice": "wren", REFERENCE: [1]}, "Synthetic speech: voice wren, Streaming-TTS Studio."),
    ],
)
def test_comment_of_a_trace(meta: dict[str, object], expected: str) -> None:
    assert sound_comment(meta) == expected
