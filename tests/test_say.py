"""`studio say`: texts, pipes and arrivals become audio and traces."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import studio
from studio.cli import main
from studio.commands.say import read_arrivals, read_pipe
from studio.core.errors import BadFile, BadText, Full
from studio.core.events import Ended
from studio.core.ports import SpeakRequest
from studio.core.sound_files import read_mono
from studio.core.speaking import Arrival, _push, speak, typed
from studio.core.time import MonotonicClock
from studio.engine.engine import open_engine
from studio.text.normalise import best

pytestmark = pytest.mark.slow

TEXT = "one two three four five six"


@pytest.fixture
def engine(voices):
    opened = open_engine(voices, best(), "cpu")
    yield opened
    opened.close()


def say_from(stdin: str, voices, *args) -> subprocess.CompletedProcess[str]:
    """Run the command as a user would, with a pipe as standard input."""
    command = [sys.executable, "-m", "studio", "say", *map(str, args), "--voices", str(voices), "--device", "cpu"]
    return subprocess.run(command, capture_output=True, text=True, input=stdin, timeout=250)


@pytest.fixture
def say(monkeypatch, capsys):
    """Run the command in this process, which has imported it: that is most of a short run."""

    def run(voices, *args) -> subprocess.CompletedProcess[str]:
        command = ["studio", "say", *map(str, args), "--voices", str(voices), "--device", "cpu"]
        monkeypatch.setattr(sys, "argv", command)
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        return subprocess.CompletedProcess(command, int(ended.value.code or 0), *capsys.readouterr())

    return run


def test_version_is_printed(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["studio", "--version"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"studio {studio.__version__}\n"


def test_wav_and_trace_are_written(say, voices, tmp_path):
    wav, trace = tmp_path / "a.wav", tmp_path / "a.trace"
    done = say(voices, TEXT, "-o", wav, "--trace", trace, "--window", 4, "--hop", 2, "--seed", 5)
    assert done.returncode == 0, done.stderr
    pcm, rate_hz = read_mono(wav)
    kept = studio.open_trace(trace)
    assert rate_hz == 24_000 and np.array_equal(pcm, kept.pcm) and len(kept.frames) * 600 == len(pcm)
    assert kept.meta["options"]["m"] == 4 and kept.meta["seed"] == 5 and kept.meta["dtype"] == "float32"
    assert [w.text for w in kept.words()] == TEXT.split()
    spoken = studio.synthesize(TEXT, voices=voices, device="cpu", seed=5, m=4, n=2)
    assert np.array_equal(spoken.pcm, pcm)


def test_captions_are_written_beside_the_sound(say, voices, tmp_path):
    out, wav = tmp_path / "a.vtt", tmp_path / "a.wav"
    result = say(voices, "One two. Three four.", "-o", wav, "--captions", out)
    assert result.returncode == 0, result.stderr
    assert f"{out}: 2 captions" in result.stderr
    assert re.findall(r"\n\n(.+) --> (.+)\n(.+)", out.read_text())[1][2] == "Three four."
    refused = say(voices, TEXT, "-o", wav, "--captions", tmp_path / "a.txt")
    assert refused.returncode and "it does not end in .srt or .vtt" in refused.stderr


def test_wav_is_written_to_standard_output_alone(say, voices, tmp_path):
    assert say(voices, TEXT, "-o", tmp_path / "a.wav").returncode == 0
    command = [sys.executable, "-m", "studio", "say", TEXT, "-o", "-", "--voices", str(voices), "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, timeout=250, cwd=tmp_path)
    assert done.returncode == 0 and done.stdout == (tmp_path / "a.wav").read_bytes()
    assert b"standard output: " in done.stderr and not (tmp_path / "-").exists()
    assert "- writes it to standard output" in " ".join(say(voices, "--help").stdout.replace("\u2502", " ").split())


def test_wav_is_not_written_to_a_terminal(voices):
    leader, follower = os.openpty()
    command = [sys.executable, "-m", "studio", "say", TEXT, "-o", "-", "--voices", str(voices), "--device", "cpu"]
    done = subprocess.run(command, stdout=follower, stderr=subprocess.PIPE, timeout=250)
    os.close(follower)
    os.close(leader)
    assert done.returncode == 2 and b"standard output is a terminal" in done.stderr and b"aplay" in done.stderr


def test_typed_and_recorded_arrivals_give_the_same_samples_later(say, voices, tmp_path):
    at_once, slow, replayed = (tmp_path / f"{name}.wav" for name in ("once", "slow", "replayed"))
    assert say(voices, TEXT, "-o", at_once).returncode == 0
    trace = tmp_path / "slow.trace"
    done = say(voices, TEXT, "-o", slow, "--typing-wpm", 300, "--trace", trace)
    assert done.returncode == 0, done.stderr
    texts = [e for e in studio.open_trace(trace).events if e.type == "text"]
    assert len(texts) == len(TEXT) and texts[-1].t_ms >= (len(TEXT) - 1) * 60_000 / (300 * 6) - 5
    lines = tmp_path / "arrivals.jsonl"
    lines.write_text("\n".join(json.dumps({"t_ms": e.t_ms, "text": e.text}) for e in texts))
    assert say(voices, "--arrivals", lines, "-o", replayed).returncode == 0
    assert np.array_equal(read_mono(at_once)[0], read_mono(slow)[0])
    assert np.array_equal(read_mono(at_once)[0], read_mono(replayed)[0])


def test_shipped_voice_uses_a_vocoder_of_its_card(say, tmp_path):
    shipped = Path(__file__).parents[1] / "assets" / "voices"
    own = json.loads((shipped / "wren" / "card.json").read_text(encoding="utf-8"))["vocoder"]
    heard = []
    for named in ((), ("--vocoder", own)):
        done = say(shipped, "the rain has stopped", "-o", tmp_path / "a.wav", *named)
        assert done.returncode == 0, done.stderr
        heard.append(read_mono(tmp_path / "a.wav")[0])
    assert np.array_equal(*heard) and np.abs(heard[0]).max() > 1000
    done = say(shipped, "the rain has stopped", "-o", tmp_path / "b.wav", "--vocoder", "vocstream")
    assert done.returncode == 2 and f"it has {own}" in done.stderr and not (tmp_path / "b.wav").exists()


def test_pipe_is_spoken_as_it_arrives(voices, tmp_path):
    trace = tmp_path / "p.trace"
    command = [sys.executable, "-m", "studio", "say", "-", "-o", str(tmp_path / "p.wav"), "--trace", str(trace)]
    with subprocess.Popen([*command, "--voices", str(voices), "--device", "cpu"], stdin=subprocess.PIPE) as process:
        assert process.stdin
        for piece in ("one two th", "ree four five ", "six"):
            process.stdin.write(piece.encode())
            process.stdin.flush()
            time.sleep(0.8)
        process.stdin.close()
        assert process.wait(250) == 0
    assert "".join(e.text for e in studio.open_trace(trace).events if e.type == "text") == TEXT
    assert say_from(TEXT, voices, "-", "-o", tmp_path / "q.wav").returncode == 0
    assert np.array_equal(read_mono(tmp_path / "p.wav")[0], read_mono(tmp_path / "q.wav")[0])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["", "-o", "x.wav"], "the text is empty"),
        (["hello", "-o", "nowhere/at/all/x.wav"], "there is no folder nowhere/at/all"),
        (["hello", "-o", "."], "it is a folder"),
        (["hello", "-o", "x.mp3"], "does not end in .wav"),
        (["hello", "-o", "x.wav", "--window", "2", "--hop", "3"], "1 <= n <= m <= 6"),
        (["hello", "-o", "x.wav", "--voice", "nobody"], "no voice 'nobody'"),
        (["hello", "-o", "x.wav", "--option", "m"], "m has no value"),
        (["hello", "-o", "x.wav", "--option", "m=1.5"], "give a whole number from 1 to 6"),
        (["hello", "-o", "x.wav", "--vocoder", "griffin"], "no vocoder 'griffin'"),
        (["hello", "-o", "x.wav", "--trace", "x.zip"], "does not end in .trace"),
        (["hello", "-o", "x.wav", "--typing-wpm", "0"], "the typing speed is 0.0"),
        (["--arrivals", "absent.jsonl", "-o", "x.wav"], "cannot be read: No such file"),
        (["hello", "--arrivals", "a.jsonl", "-o", "x.wav"], "brings its own text"),
    ],
)
def test_mistakes_are_reported(say, voices, args, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = say(voices, *args)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


def test_only_the_requested_voice_is_needed(say, voices, tmp_path):
    shutil.copytree(voices / "tiny", tmp_path / "voices" / "tiny")
    shutil.copytree(voices / "tiny", tmp_path / "voices" / "ant")
    card = json.loads((voices / "tiny" / "card.json").read_text())
    (tmp_path / "voices" / "ant" / "card.json").write_text(json.dumps(card | {"name": "ant"}))
    os.truncate(tmp_path / "voices" / "ant" / "speakstream.safetensors", 1000)
    done = say(tmp_path / "voices", "hello", "-o", tmp_path / "x.wav", "--voice", "tiny")
    assert done.returncode == 0 and "ant" not in done.stderr
    done = say(tmp_path / "voices", "hello", "-o", tmp_path / "x.wav")
    assert done.returncode == 2 and "ant/speakstream.safetensors is not the file" in done.stderr


def test_empty_pipe_is_reported(voices, tmp_path):
    done = say_from("", voices, "-", "-o", tmp_path / "x.wav")
    assert done.returncode == 2 and "no text came" in done.stderr


def test_non_text_bytes_are_reported(voices, tmp_path):
    command = [sys.executable, "-m", "studio", "say", "-", "-o", str(tmp_path / "x.wav"), "--voices", str(voices)]
    done = subprocess.run(command, capture_output=True, input=b"caf\xe9 au lait", timeout=250)
    assert done.returncode == 2 and b"no text in UTF-8 near byte 3" in done.stderr and b"iconv" in done.stderr


def test_spoken_audio_is_kept_when_the_pipe_breaks(engine):
    reading, writing = os.pipe()
    os.write(writing, TEXT.encode() + b" ")

    def progress(seconds: float) -> None:
        if seconds and not broken:
            broken.append(os.write(writing, b"caf\xe9 "))
            os.close(writing)

    broken: list[int] = []
    spoken = speak(engine, SpeakRequest(), read_pipe(reading), MonotonicClock(), {}, on_progress=progress)
    os.close(reading)
    assert isinstance(spoken.error, BadText) and "near byte" in spoken.error.what
    assert len(spoken.trace.pcm) > 0
    assert isinstance(spoken.trace.events[-1], Ended)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_spoken_audio_is_kept_on_an_interrupt(engine, number):
    before = signal.getsignal(number)

    def progress(seconds: float) -> None:
        pieces.append(seconds)
        if len(pieces) == 3:
            signal.raise_signal(number)

    pieces: list[float] = []
    spoken = speak(engine, SpeakRequest(), typed(TEXT * 9, 120), MonotonicClock(), {}, on_progress=progress)
    assert isinstance(spoken.error, KeyboardInterrupt)
    assert len(spoken.trace.pcm) > 0
    assert isinstance(spoken.trace.events[-1], Ended)
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[]",
        '{"t_ms": 0}',
        '{"t_ms": "0", "text": "a"}',
        '{"t_ms": -1, "text": "a"}',
        '{"t_ms": NaN, "text": "a"}',
        '{"t_ms": 1e400, "text": "a"}',
        '{"t_ms": 1e300, "text": "a"}',
    ],
)
def test_invalid_arrivals_name_their_line(tmp_path, line):
    path = tmp_path / "a.jsonl"
    path.write_text('{"t_ms": 0, "text": "fine "}\n' + line)
    with pytest.raises(BadFile, match="line 2"):
        read_arrivals(path)


def test_arrivals_increase_and_hold_text(tmp_path):
    path = Path(tmp_path / "a.jsonl")
    path.write_text('{"t_ms": 5, "text": "a"}\n{"t_ms": 4, "text": "b"}')
    with pytest.raises(BadFile, match="line 2"):
        read_arrivals(path)
    path.write_text('{"t_ms": 5, "text": " "}')
    with pytest.raises(BadText):
        read_arrivals(path)
    assert list(typed("ab", 100)) == [Arrival(0.0, "a"), Arrival(100.0, "b")]


def test_unspeakable_text_is_reported(say, voices, tmp_path):
    done = say(voices, "one \N{GRINNING FACE} two", "-o", tmp_path / "a.wav")
    assert done.returncode == 0 and "left out: '\N{GRINNING FACE}'" in done.stderr
    done = say(voices, "\N{GRINNING FACE}", "-o", tmp_path / "b.wav")
    assert done.returncode == 2 and "nothing of the text can be spoken" in done.stderr
    assert not (tmp_path / "b.wav").exists()


def test_failing_source_ends_the_utterance(engine):
    def breaking():
        yield Arrival(0.0, "one ")
        raise RuntimeError("the pipe burst")

    spoken = speak(engine, SpeakRequest(), breaking(), MonotonicClock(), {})
    assert isinstance(spoken.error, RuntimeError)
    assert engine.free_slots() > 0


def test_pipe_is_read_no_faster_than_the_voice_accepts(voices):
    class Narrow:
        """An utterance that accepts text at the third attempt."""

        tries, taken = 0, ""

        def push_text(self, text: str) -> None:
            self.tries += 1
            if self.tries % 3:
                raise Full("it is full", "wait")
            self.taken += text

    utterance = Narrow()
    _push(utterance, "one ", MonotonicClock())
    _push(utterance, "two ", MonotonicClock())
    assert (utterance.taken, utterance.tries) == ("one two ", 6)


def test_printed_length_equals_that_of_the_file(say, voices, tmp_path):
    wav = tmp_path / "typed.wav"
    done = say(voices, TEXT, "-o", wav, "--typing-wpm", 60, "--as-heard")
    assert done.returncode == 0, done.stderr
    pcm, rate_hz = read_mono(wav)
    heard_s, speech_s = re.findall(r"([\d.]+) s", done.stderr.splitlines()[-1])
    assert float(heard_s) == pytest.approx(len(pcm) / rate_hz, abs=0.006)
    assert float(speech_s) < float(heard_s)


def test_missing_audio_device_is_reported_before_speaking(voices, tmp_path):
    (tmp_path / "sounddevice.py").write_text('raise OSError("PortAudio library not found")')
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "studio", "say", "hello", "--voices", str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode != 0
    assert "libportaudio2" in done.stderr and "none" not in done.stderr


def test_pauses_of_ssml_are_silence_between_words(voices, say, tmp_path):
    plain, paused, captions = tmp_path / "plain.wav", tmp_path / "paused.wav", tmp_path / "paused.srt"
    assert say(voices, "one two three four", "-o", plain).returncode == 0
    ssml = '<speak>one two <break time="700ms"/> three four<break time="1s"/></speak>'
    assert say(voices, ssml, "-o", paused, "--markup", "ssml", "--captions", captions).returncode == 0
    (before, rate_hz), (after, _) = read_mono(plain), read_mono(paused)
    assert len(after) == len(before) + round(1.7 * rate_hz)
    assert not after[-rate_hz:].any()
    wrong = say(voices, "<mark name='x'/>one", "-o", paused, "--markup", "ssml")
    assert wrong.returncode != 0 and "<mark>" in wrong.stderr


def test_markdown_of_a_pipe_is_not_spoken(voices, tmp_path):
    plain, piped = tmp_path / "plain.wav", tmp_path / "piped.wav"
    written = "<think>hidden</think># one\n**two** three"
    assert say_from(written, voices, "-", "-o", piped, "--markup", "markdown").returncode == 0
    assert say_from("one. two three", voices, "-", "-o", plain).returncode == 0
    assert piped.read_bytes() == plain.read_bytes()


def test_lexicon_changes_what_is_spoken(voices, say, tmp_path):
    lexicon, with_it, spelt = tmp_path / "lexicon.txt", tmp_path / "with.wav", tmp_path / "spelt.wav"
    lexicon.write_text("nginx engine eks\n", encoding="utf-8")
    assert say(voices, "one nginx two", "-o", with_it, "--lexicon", lexicon).returncode == 0
    assert say(voices, "one engine eks two", "-o", spelt).returncode == 0
    assert with_it.read_bytes() == spelt.read_bytes()
    lexicon.write_text("nginx /ˈandʒɪn/\n", encoding="utf-8")
    wrong = say(voices, "one nginx two", "-o", with_it, "--lexicon", lexicon)
    assert wrong.returncode != 0 and "the nearest is 'æ'" in wrong.stderr
