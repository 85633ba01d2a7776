"""Full disks, devices, pipes, folders and bad cards give two lines of error output, never a traceback."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from soundmaking import put
from tinyvoice import write_tiny_voice

from studio.cli import main
from studio.core.cards import Card, read_card, sha256_of, write_card
from studio.core.sound_files import read_mono
from studio.core.traces.trace import open_trace

ErrorOf = Callable[..., str]


@pytest.fixture
def error_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> ErrorOf:
    """Error output of a failing command: two lines and a status, as a user sees it."""

    def run(*arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["studio", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr().err
        assert ended.value.code == 2, said
        assert "Traceback" not in said
        return said

    return run


@pytest.mark.parametrize(
    "command",
    [
        ("say", "--arrivals", "WHAT", "-o", "out.wav"),
        ("app", "--settings", "WHAT"),
        ("campaign", "new", "a", "--template", "speakstream-mos", "--from", "WHAT.csv"),
        ("campaign", "new", "a", "--template", "speakstream-mos", "--from", "sounds", "--config", "WHAT"),
        ("campaign", "new", "a", "--template", "speakstream-mos", "--texts", "WHAT", "--systems", "clara"),
        ("campaign", "elo", "WHAT"),
        ("campaign", "merge", "WHAT"),
        ("restore", "WHAT"),
    ],
    ids=lambda command: " ".join(command[:2]) + command[-2],
)
@pytest.mark.parametrize("what", ["pipe", "zero", "folder", "absent"])
def test_special_files_are_reported(
    error_of: ErrorOf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: tuple[str, ...], what: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STUDIO_DATA_FOLDER", str(tmp_path / "data"))
    for name in ("given", "given.csv"):
        place = tmp_path / name
        match what:
            case "pipe":
                os.mkfifo(place)
            case "zero":
                place.symlink_to("/dev/zero")
            case "folder":
                place.mkdir()
            case _:
                pass
    (tmp_path / "sounds").mkdir()
    assert error_of(*(part.replace("WHAT", "given") for part in command))


def test_manifest_with_a_folder_as_a_trace_is_reported(error_of: ErrorOf, tmp_path: Path) -> None:
    put(tmp_path, "a.wav", "b.wav")
    (tmp_path / "x.trace").mkdir()
    files = [{"system": name, "item": "i", "file": f"{name}.wav", "trace": "x.trace"} for name in ("a", "b")]
    whole = {"systems": [{"name": "a"}, {"name": "b"}], "items": [{"name": "i", "text": "Hi."}], "files": files}
    (tmp_path / "manifest.json").write_text(json.dumps(whole), encoding="utf-8")
    new = ("campaign", "new", "a", "--template", "speakstream-mos", "--data", tmp_path / "data", "--from")
    assert "is not a trace" in error_of(*new, tmp_path / "manifest.json")


@pytest.mark.parametrize("threads", ["0", "100000", "-1"])
def test_number_of_threads_is_bounded(error_of: ErrorOf, threads: str) -> None:
    assert "--threads" in error_of("say", "Hello there.", "-o", "x.wav", "--threads", threads)


# --- cards and weights ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", 7),
        ("name", "../tiny"),
        ("sample_rate_hz", "24000"),
        ("sample_rate_hz", -1),
        ("sample_rate_hz", 10**400),
        ("frame_samples", 0),
        ("frame_samples", 600.5),
        ("temperature", "hot"),
        ("temperature", 1e300),
        ("speakers", []),
        ("speakers", 7),
        ("speakers", "one"),
        ("speakers", [{"a": 1}]),
        ("speakers", ["one"] * 2),
        ("speakers", ["one", "two", "three"]),
        ("options", 3),
        ("options", [3]),
        ("options", [{"name": "m"}]),
        ("options", [{"name": "m", "kind": "int", "default": "3", "label": "m"}]),
        ("config", []),
        ("config", {"width": 3}),
        ("config", {"channels": "many"}),
        ("vocoder", "none such"),
        ("vocoders", {"sourcefilter": 3}),
        ("vocoders", {"sourcefilter": {"width": "wide"}}),
        ("alphabet", "klingon"),
        ("family", "none such"),
        ("family", ["speakstream"]),
        ("sha256", {"speakstream.safetensors": 7}),
        ("sha256", []),
        ("parameters", {"net": "many"}),
        ("notes", 3),
        ("default_speaker", "nobody"),
        ("default_speaker", ["one"]),
    ],
)
def test_card_of_wrong_types_is_reported(error_of: ErrorOf, tmp_path: Path, field: str, value: Any) -> None:
    folder = write_tiny_voice(tmp_path)
    data = json.loads((folder / "card.json").read_text(encoding="utf-8")) | {field: value}
    (folder / "card.json").write_text(json.dumps(data), encoding="utf-8")
    said = error_of("say", "One two.", "-o", tmp_path / "x.wav", "--voices", tmp_path)
    assert len(said) < 1500


@pytest.mark.parametrize("content", ["", "7", "[]", "null", '"card"', "{", "\xff", "[" * 100_000, '{"name": NaN}'])
def test_invalid_card_is_reported(error_of: ErrorOf, tmp_path: Path, content: str) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "card.json").write_bytes(content.encode("latin-1"))
    error_of("voices", "--voices", tmp_path)


def test_card_that_is_a_pipe_is_reported(error_of: ErrorOf, tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    os.mkfifo(tmp_path / "tiny" / "card.json")
    assert "pipe" in error_of("voices", "--voices", tmp_path)


def test_no_message_controls_the_terminal(error_of: ErrorOf, tmp_path: Path) -> None:
    folder = tmp_path / "a\x1b]0;b\a"
    folder.mkdir()
    (folder / "card.json").write_text("{")
    said = error_of("voices", "--voices", tmp_path)
    assert r"a\x1b]0;b\x07/card.json" in said and "\x1b]" not in said


def test_shipped_cards_pass() -> None:
    root = Path(__file__).resolve().parents[1] / "assets" / "voices"
    for path in root.glob("*/card.json"):
        card = read_card(path.parent)
        assert Card.from_dict(json.loads(json.dumps(card.to_dict()))) == card


def test_non_finite_weights_are_reported(error_of: ErrorOf, tmp_path: Path) -> None:
    folder = write_tiny_voice(tmp_path)
    weights = folder / "speakstream.safetensors"
    tensors = load_file(weights)
    name = next(iter(tensors))
    tensors[name].view(-1)[0] = torch.nan
    save_file(tensors, weights)
    card = read_card(folder)
    card.sha256["speakstream.safetensors"] = sha256_of(weights)
    write_card(folder, card)
    said = error_of("say", "One two.", "-o", tmp_path / "x.wav", "--voices", tmp_path)
    assert "numbers that are not finite" in said and name in said


def test_non_finite_samples_end_the_utterance(voices: Path) -> None:
    from studio.core.events import Failed
    from studio.core.ports import SpeakRequest
    from studio.engine.engine import open_engine
    from studio.text.normalise import best

    engine = open_engine(voices, best(), "cpu")
    vocode = engine.voice("tiny").vocode
    real = vocode.run
    vocode.run = lambda *given: [samples * np.nan for samples in real(*given)]  # type: ignore[method-assign]
    utterance = engine.open(SpeakRequest(options={"m": 1}))
    utterance.push_text("one two ")
    utterance.end()
    last = list(utterance.events())[-1]
    assert isinstance(last, Failed) and last.code == "not_finite"
    engine.close()


@pytest.mark.parametrize("asked", [("--option", "m=99"), ("--option", "k=1"), ("--voice", "nobody")])
def test_unsupported_option_is_reported_before_loading(
    error_of: ErrorOf, monkeypatch: pytest.MonkeyPatch, voices: Path, tmp_path: Path, asked: tuple[str, str]
) -> None:
    monkeypatch.setattr("studio.engine.engine.open_engine", lambda *_, **__: pytest.fail("loaded"))
    said = error_of("say", "One two.", "-o", tmp_path / "x.wav", "--voices", voices, *asked)
    assert asked[1].partition("=")[0] in said


# --- full disks and termination ------------------------------------------------------------------


def say(voices: Path, *arguments: object, **how: Any) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "studio", "say", *map(str, arguments), "--voices", str(voices), "--device", "cpu"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, **pipes, **how)


def test_full_disk_is_reported(voices: Path) -> None:
    done = say(voices, "One two.", "-o", "/dev/full")
    _, said = done.communicate(timeout=120)
    assert done.returncode == 2 and "No space left" in said and "Traceback" not in said


def test_missing_folder_is_reported_with_how_to_create_it(
    error_of: ErrorOf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails() -> None:
        (tmp_path / "gone" / "out.txt").write_text("")

    monkeypatch.setattr("studio.cli.cli", fails)
    said = error_of()
    assert "out.txt" in said and "make its folder first" in said


def test_trace_that_fills_the_disk_keeps_the_audio(voices: Path, tmp_path: Path) -> None:
    """Files may not exceed 60 KB: less than the trace needs, more than the WAV of the first part."""
    out, trace = tmp_path / "a.wav", tmp_path / "a.trace"

    def narrow() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    text = "several words that take more than a second to be spoken by any voice " * 3
    done = say(voices, text, "-o", out, "--trace", trace, preexec_fn=narrow)
    _, said = done.communicate(timeout=120)
    assert done.returncode == 2 and "trace" in said and "cannot be written" in said and "Traceback" not in said
    assert not trace.exists() and not trace.with_suffix("").exists()


def test_sigterm_keeps_the_spoken_audio_as_an_interrupt_does(voices: Path, tmp_path: Path) -> None:
    out, trace = tmp_path / "a.wav", tmp_path / "a.trace"
    done = say(voices, "-", "-o", out, "--trace", trace, "--window", 1)
    assert done.stdin is not None
    done.stdin.write("one two three four ")
    done.stdin.flush()
    audio, until_s = trace.with_suffix("") / "audio.wav", time.monotonic() + 60
    while not audio.is_file() or audio.stat().st_size < 20_000:
        assert time.monotonic() < until_s and done.poll() is None
        time.sleep(0.05)
    done.send_signal(signal.SIGTERM)
    _, said = done.communicate(timeout=60)
    assert done.returncode != 0 and "Traceback" not in said
    pcm, _ = read_mono(out)
    assert len(pcm) >= 9_000 and len(open_trace(trace).pcm) == len(pcm)
