"""A model as Kyutai publishes it, pulled and spoken: a tiny random one, with the published layout and names."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hub.conftest import accepted
from hub.hubserver import TOKEN, Hub
from hub.kyutai_files import CODEC, MODEL, SPEAKERS_END, TEXT, VALUES, published_files
from listening import of, samples
from safetensors.torch import load, save
from tinyvoice import (
    KYUTAI_PREFIXED_VALUES,
    PREFIXED,
    VOCODERS,
    write_tiny_voice,
)
from typer.testing import CliRunner

from studio.cli import cli
from studio.core import events as ev
from studio.core.clips import to_int16, wav_bytes
from studio.core.errors import BadOption, BadVoice, StudioError
from studio.core.folders import VOICES
from studio.core.ports import SpeakRequest
from studio.core.pulled import find_cards
from studio.core.traces.trace import collect_trace, open_trace
from studio.engine.engine import LocalEngine, open_engine
from studio.hub import kyutai
from studio.hub.client import HubError
from studio.hub.pull import look, pull, verify
from studio.hub.push import push_voice
from studio.inspection.bundle import pack
from studio.text.normalise import best

REPO = "kyutai/tts-tiny"
HAPPY, OTHER = kyutai.DEFAULT_SPEAKERS[0], "vctk/p226_023.wav"
Edit = Callable[[dict[str, bytes]], object]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return published_files(tmp_path_factory.mktemp("voice"))


@pytest.fixture(autouse=True)
def _served(hub: Hub, published: dict[str, bytes], root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kyutai, "MIMI", VOCODERS["mimi"])
    hub.repository(REPO).commit(published)
    torch.manual_seed(5)
    speakers = {path: save({"speaker_wavs": torch.randn(1, 6, 3)}) for path in (HAPPY, OTHER)}
    files = {f"{path}{SPEAKERS_END}": data for path, data in speakers.items()}
    wavs = {f"folder/{number}.wav": b"RIFF" for number in range(1200)}  # more than a voice may have
    hub.repository(kyutai.SPEAKERS).commit(files | wavs | {"vctk/odd name.wav": b""})


def recording(seconds: float, gain: float = 0.3) -> bytes:
    """A sound at another rate than the model's."""
    tone = np.sin(np.arange(int(seconds * 48_000)) * 0.03) * np.linspace(0.2, 1, int(seconds * 48_000))
    return wav_bytes(to_int16(gain * tone), 48_000)


def engine(name: str) -> LocalEngine:
    return open_engine(VOICES, best(), device="cpu", voice_names=[name])


def run(*arguments: str) -> str:
    done = CliRunner().invoke(cli, [*arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_published_model_is_pulled_spoken_word_by_word_and_inspected(root: Path, tmp_path: Path) -> None:
    arguments = ["--accept-licence", "--as", "kyu", "--speaker", HAPPY, "--speaker", OTHER]
    run("voices", "pull", REPO, *arguments)
    assert {path.name for path in (root / "kyu").iterdir()} == {
        *("card.json", "hub.json", "config.json", "kyutai.safetensors", "mimi.safetensors", "tokenizer.model"),
        *("speaker-0.safetensors", "speaker-1.safetensors"),
    }
    assert verify(root / "kyu") == 7
    assert "kyu: Kyutai: tts-tiny. Speakers: ex03-ex01_happy_001_channel1_334s" in run("voices", "list")
    assert "p226_023" in run("voices", "info", "kyu")
    run(
        "say",
        "The rain has stopped.",
        "--voice",
        "kyu:p226_023",
        "-o",
        str(tmp_path / "a.wav"),
        "--trace",
        str(tmp_path / "a.trace"),
    )
    trace = open_trace(tmp_path / "a.trace")
    assert [word.text for word in trace.words()] == ["the", "rain", "has", "stopped."]
    assert len(trace.pcm) == 1920 * len(trace.p_eos) > 0 and trace.frames.shape == (len(trace.p_eos), 0)
    header = json.loads(pack(trace)[4:].split(b'"arrays"')[0].rstrip(b", ") + b"}")
    assert header["channels"] == 0 and [one["text"] for one in header["timeline"]["words"]][1] == "rain"
    assert "rain" in run("inspect", str(tmp_path / "a.trace"))


def test_sound_comes_before_the_last_word_and_cancel_says_what_was_heard(root: Path) -> None:
    pull(REPO, root, accepted)
    with closing(engine("tts-tiny")) as one:
        utterance = one.open(SpeakRequest(voice="tts-tiny", seed=3))
        stream, got = utterance.events(), list[ev.Event]()
        for word in "one two three four five six seven eight".split():
            utterance.push_text(f"{word} ")
        while len(of(ev.WordEnd, got)) < 2:
            got.append(next(stream))
        utterance.cancel(of(ev.WordEnd, got)[-1].sample)
        got += stream
        assert of(ev.Cancelled, got)[0].heard == [0, 1] and isinstance(got[-1], ev.Ended)
        starts = [event.sample for event in of(ev.WordStart, got)]
        assert starts == sorted(starts) and all(sample % 1920 == 0 for sample in starts)
        assert {event.source for event in of(ev.WordStart, got)} == {"action"} and len(samples(got))
        assert collect_trace({}, got).p_eos.max() > 0
        with pytest.raises(BadOption, match="cfg cannot be"):
            one.open(SpeakRequest(voice="tts-tiny", options={"cfg": "4"}))


def test_an_offer_lists_the_speakers_of_the_model(root: Path) -> None:
    """Those of other models, and recordings, are no speakers of this one."""
    assert look(REPO, root).speakers == sorted([HAPPY, OTHER])


def test_the_same_commit_is_not_fetched_again_but_for_other_speakers(hub: Hub, root: Path) -> None:
    offer = look(REPO, root)
    assert (
        offer.licences == ["apache-2.0", "apache-2.0; speakers: apache-2.0"]
        and "tts-voices@" in offer.card.learned_from
    )
    assert pull(REPO, root, accepted) == root / "tts-tiny"
    asked = len(hub.asked("GET", MODEL))
    assert pull(REPO, root, accepted) and len(hub.asked("GET", MODEL)) == asked
    assert pull(REPO, root, accepted, speakers=[OTHER]) and len(hub.asked("GET", MODEL)) == asked
    assert find_cards(VOICES)["tts-tiny"][0].speakers == ("p226_023",)


def tensors(files: dict[str, bytes], name: str, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    held = load(files[name])
    change(held)
    files[name] = save(held)


def values(**change: Any) -> Edit:
    return lambda files: files.update({"config.json": json.dumps(VALUES | change).encode()})


@pytest.mark.parametrize(
    ("edit", "speakers", "says"),
    [
        (lambda files: files.pop(TEXT), (), f"has no file {TEXT}"),
        (lambda files: files.pop("config.json"), (), r"has no card\.json"),
        (values(moshi_name=None), (), "moshi_name in config.json .* is None, no name"),
        (values(mimi_name="../mimi.safetensors"), (), r"mimi_name .* is '\.\./mimi"),
        (values(model_id={}), (), "names no speakers' files"),
        (values(tts_config={}), (), "audio_delay is None"),
        (lambda files: files.update({"config.json": b"[" * 100_000}), (), "cannot be read"),
        (lambda files: files.update({"config.json": b'{"model_type": "bert"}'}), (), "nor a model of Kyutai's"),
        (lambda files: files.update({MODEL: b"not tensors"}), (), r"kyutai\.safetensors is no safetensors file"),
        (lambda files: None, ("vctk/nobody.wav",), r"tts-voices has no file vctk/nobody\.wav\.1e68beda@240"),
        (lambda files: None, (HAPPY, HAPPY), "the same name"),
        (lambda files: None, (HAPPY,) * 40, "too many speakers"),
    ],
)
def test_what_is_no_such_model_is_named_and_nothing_is_installed(
    hub: Hub, root: Path, published: dict[str, bytes], edit: Edit, speakers: tuple[str, ...], says: str
) -> None:
    files = dict(published)
    edit(files)
    hub.repository(REPO).commit(files)
    with pytest.raises(StudioError, match=says):
        pull(REPO, root, accepted, speakers=speakers)
    assert not root.exists() or {path.name for path in root.iterdir()} <= {".staging"}


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (
            lambda files: tensors(files, MODEL, lambda held: held.pop("out_norm.alpha")),
            r"kyutai\.safetensors lacks out_norm\.alpha",
        ),
        (
            lambda files: tensors(
                files, MODEL, lambda held: held.update({"text_linear.weight": held["text_linear.weight"].int()})
            ),
            r"text_linear\.weight in .* is I32, not one of F32",
        ),
        (
            lambda files: tensors(
                files, CODEC, lambda held: held.update({"decoder.model.0.conv.conv.bias": torch.zeros(7)})
            ),
            r"decoder\.model\.0\.conv\.conv\.bias in .*mimi\.safetensors has the shape \[7\]",
        ),
        (values(dep_q="many"), "there is no acoustic tokenizer 'mimi-manyx16'"),
        (values(gating="gelu"), "gating is 'gelu', and only 'silu' is known"),
        (values(dep_q=3, depformer_weights_per_step_schedule=[0, 1, 2]), "kyutai.safetensors has unknown"),
        (lambda files: files.update({TEXT: b"\0" * 40}), "is not a SentencePiece model"),
    ],
)
def test_weights_that_do_not_fit_are_named_when_the_voice_is_loaded(
    hub: Hub, root: Path, published: dict[str, bytes], edit: Edit, says: str
) -> None:
    files = dict(published)
    edit(files)
    hub.repository(REPO).commit(files)
    pull(REPO, root, accepted)
    with pytest.raises(BadVoice, match=says):
        engine("tts-tiny")


@pytest.fixture
def prefixed(hub: Hub, published: dict[str, bytes], tmp_path: Path) -> str:
    """The model whose speakers are recordings, in the hub."""
    folder = write_tiny_voice(tmp_path / "prefixed", family=PREFIXED)
    values = VALUES | KYUTAI_PREFIXED_VALUES | {"model_id": {"sig": "d6ef30c7", "epoch": 1000}}
    weights = (folder / "kyutai.safetensors").read_bytes()
    hub.repository("kyutai/tts-small").commit(published | {"config.json": json.dumps(values).encode(), MODEL: weights})
    return "kyutai/tts-small"


def test_a_model_whose_speakers_are_recordings_is_pulled_and_spoken(
    hub: Hub, root: Path, prefixed: str, tmp_path: Path
) -> None:
    hub.repository(kyutai.SPEAKERS).commit({HAPPY: recording(3), OTHER: recording(25)})
    run("voices", "pull", prefixed, "--accept-licence", "--speaker", HAPPY, "--speaker", OTHER)
    folder = root / "tts-small"
    assert {path.name for path in folder.glob("speaker-*")} == {"speaker-0.wav", "speaker-1.wav"}
    assert verify(folder) == 7
    heard = list[np.ndarray]()
    for speaker in ("ex03-ex01_happy_001_channel1_334s", "p226_023"):
        files = ["-o", str(tmp_path / "a.wav"), "--trace", str(tmp_path / "a.trace")]
        run("say", "The rain has stopped.", "--voice", f"tts-small:{speaker}", *files)
        trace = open_trace(tmp_path / "a.trace")
        assert [word.text for word in trace.words()] == ["the", "rain", "has", "stopped."]
        assert len(trace.pcm) == 1920 * len(trace.p_eos) > 0, "the recording is not played"
        heard.append(trace.pcm)
    assert len(heard[0]) != len(heard[1]) or not np.array_equal(*heard)
    with closing(engine("tts-small")) as one:
        family = one.voice("tts-small").family
        assert [family.prompt(speaker).shape for speaker in (0, 1)] == [(38 - 2, 4), (250 - 2, 4)]


def test_a_pulled_voice_with_recordings_is_pushed_and_pulled(
    hub: Hub, root: Path, prefixed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.repository(kyutai.SPEAKERS).commit({HAPPY: recording(3)})
    first = pull(prefixed, root, accepted)
    push_voice(first, "rook/kyu")
    repository = hub.repositories["rook/kyu"]
    readme = repository.commits[repository.branches["main"]]["README.md"].decode()
    assert "speaker-0.wav" not in readme, "a speaker's recording is no sample of the voice"
    again = pull("rook/kyu", root, accepted, name="kyu")
    assert (again / "speaker-0.wav").read_bytes() == (first / "speaker-0.wav").read_bytes()
    with closing(engine("kyu")) as one:
        assert one.voice("kyu").family.prompt(0).shape == (36, 4)


@pytest.mark.parametrize(
    ("sound", "says"),
    [
        (recording(0.5), r"tts-small.*speaker-0\.wav cannot be a speaker: .* lasts 0\.5 s; give 1\.1 to 20 s"),
        (recording(3, gain=0), "is silent or damaged"),
        (b"RIFF", r"speaker-0\.wav cannot be a speaker"),
    ],
)
def test_a_recording_that_cannot_be_a_speaker_is_named_when_the_voice_is_loaded(
    hub: Hub, root: Path, prefixed: str, sound: bytes, says: str
) -> None:
    hub.repository(kyutai.SPEAKERS).commit({HAPPY: sound})
    pull(prefixed, root, accepted)
    with pytest.raises(BadVoice, match=says):
        engine("tts-small")


def test_speakers_belong_to_kyutais_models_only(hub: Hub, tiny: str, root: Path) -> None:
    with pytest.raises(HubError, match="leave --speaker out"):
        pull("rook/tiny", root, accepted, speakers=[HAPPY])


def test_a_voice_that_was_published_again_is_pulled_as_any_other(hub: Hub, root: Path, tmp_path: Path) -> None:
    folder = write_tiny_voice(tmp_path / "voices", family="kyutai")
    hub.repository("rook/kyu").commit({path.name: path.read_bytes() for path in folder.iterdir()})
    pull("rook/kyu", root, accepted, name="kyu")
    with closing(engine("kyu")) as one:
        assert one.voice("kyu").card.family == "kyutai"
