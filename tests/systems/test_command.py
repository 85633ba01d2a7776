"""Programs as systems: what is spoken, what a listener is told, and how they fail."""

import shlex
import threading
import time
from contextlib import closing

import numpy as np
import pytest
from systems.speaking import TEXT, failure, opened, shell, sound_file, spoken, tone

from studio.core.events import Audio, Cancelled, Committed, Ended, Failed, Ready, Segment
from studio.core.ports import SpeakRequest
from studio.core.speaking import speak_once
from studio.systems.engine import RemoteEngine
from studio.systems.settings import check_system


def test_text_arrives_in_cuts_and_the_sound_comes_back_unchanged(tmp_path):
    wav, heard = sound_file(tmp_path / "a.wav"), tmp_path / "heard.txt"
    trace = spoken(shell(f"cat >> {shlex.quote(str(heard))}; cat {wav}"))
    assert heard.read_text() == "Good morning,\nmy friend.\nHow are you?\n"
    assert np.array_equal(trace.pcm, np.tile(tone(0.5), 3))
    assert isinstance(trace.events[-1], Ended)
    assert [one.words for one in trace.segments()] == [(0, 1), (2, 3), (4, 5, 6)]
    assert [one.text for one in trace.words()] == ["Good", "morning,", "my", "friend.", "How", "are", "you?"]


def test_words_are_estimates_in_order_inside_their_segment(tmp_path):
    trace = spoken(shell(f"cat {sound_file(tmp_path / 'a.wav')}"))
    words = trace.words()
    assert {one.source for one in words} == {"estimate"}
    edges = [edge for one in words for edge in (one.start, one.end)]
    assert edges == sorted(edges) and edges[0] < 100 and edges[-1] > 3 * 12_000 - 100
    assert words[2].start >= 12_000 > words[1].start


@pytest.mark.parametrize("kept", [45, 1_000, 20_000])
def test_a_wav_that_breaks_off_has_failed(tmp_path, kept):
    path = tmp_path / "a.wav"
    why = failure(shell(f"head -c {kept} {sound_file(path)}"))
    assert f"lacks its last {path.stat().st_size - kept:,} bytes" in why


@pytest.mark.parametrize("size", [0, 0x7FFFF000, 0xFFFFFFFF])
def test_a_wav_that_was_streamed_does_not_state_its_length(tmp_path, size):
    path = tmp_path / "a.wav"
    wav, data = sound_file(path), bytearray(path.read_bytes())
    data[40:44] = size.to_bytes(4, "little")
    path.write_bytes(data)
    assert np.array_equal(spoken(shell(f"cat {wav}"), "One.").pcm, tone(0.5))


@pytest.mark.parametrize(("cut", "lines"), [("sentence", 2), ("clause", 3), ("words", 4)])
def test_options_set_the_cuts(tmp_path, cut, lines):
    heard = tmp_path / "heard.txt"
    script = f"cat >> {shlex.quote(str(heard))}; cat {sound_file(tmp_path / 'a.wav')}"
    spoken(shell(script), options={"cut": cut, "words": 2})
    assert len(heard.read_text().splitlines()) == lines


def test_abbreviations_and_numbers_end_no_sentence(tmp_path):
    heard = tmp_path / "heard.txt"
    script = f"cat >> {shlex.quote(str(heard))}; cat {sound_file(tmp_path / 'a.wav')}"
    spoken(shell(script) | {"cut": "sentence"}, 'Dr. Smith paid $3.50 to "Mr. Jones." Good.')
    assert heard.read_text().splitlines() == ['Dr. Smith paid $3.50 to "Mr. Jones."', "Good."]


def test_text_in_any_script_is_passed_on(tmp_path):
    heard = tmp_path / "heard.txt"
    trace = spoken(
        shell(f"cat >> {shlex.quote(str(heard))}; cat {sound_file(tmp_path / 'a.wav')}"), "Привет, мир. 你好。"
    )
    assert heard.read_text().splitlines() == ["Привет,", "мир.", "你好。"]
    assert isinstance(trace.events[-1], Ended)


def test_another_rate_is_resampled(tmp_path):
    trace = spoken(shell(f"cat {sound_file(tmp_path / 'a.wav', 1.0, 16_000)}"), "Hello.")
    assert trace.rate_hz == 24_000 and abs(len(trace.pcm) - 24_000) < 100
    spectrum = np.abs(np.fft.rfft(trace.pcm[2000:22_000]))
    assert abs(np.argmax(spectrum) * 24_000 / 20_000 - 200) < 3


def test_plain_samples_need_a_rate(tmp_path):
    (tmp_path / "a.pcm").write_bytes(tone(0.5, 8000).tobytes())
    system = shell(f"cat {tmp_path / 'a.pcm'}")
    assert "--sample-rate-hz" in failure(system, "Hello.")
    assert abs(len(spoken(system | {"sample_rate_hz": 8000}, "Hello.").pcm) - 12_000) < 100


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo boom >&2; exit 3", "ended with status 3: boom"),
        ("kill -9 $$", "was ended by signal 9"),
        ("true", "no sound for 'Good morning,'"),
        ("sleep 60", "sent nothing for 2 s"),
        ("yes", "more than"),
        ("cat /dev/zero", "more than"),
        ("head -c 48000 /dev/zero", "silence"),
        ("printf 'ID3\\004\\000\\000\\000\\000\\000\\000\\000\\000'", "sent MP3"),
        ("printf '<!doctype html><title>Not found</title>'", "page of HTML"),
        ('printf \'{"error": "wrong key"}\'', 'JSON, not sound: \'{"error": "wrong key"}\''),
        ("printf 'RIFF\\044\\000\\000\\000WAVEfmt \\020'", "breaks off"),
    ],
)
def test_a_program_that_goes_wrong_fails_with_a_sentence(script, words):
    began_s = time.monotonic()
    message = failure(shell(script) | {"timeout_s": 2.0, "sample_rate_hz": 24_000})
    assert words in message and "; " in message  # what to do follows
    assert time.monotonic() - began_s < 10


def test_stereo_is_refused(tmp_path):
    import soundfile

    soundfile.write(tmp_path / "a.wav", np.stack([tone(0.2)] * 2, 1), 24_000)
    assert "2 channels" in failure(shell(f"cat {tmp_path / 'a.wav'}"))


def test_a_program_that_is_not_installed():
    assert "cannot be started" in failure({"kind": "command", "command": "there-is-no-such-program"})


def test_what_was_spoken_before_a_failure_stays(tmp_path):
    wav, once = sound_file(tmp_path / "a.wav"), tmp_path / "once"
    trace = spoken(shell(f"if mkdir {once}; then cat {wav}; else exit 1; fi"))
    assert isinstance(trace.events[-1], Failed) and len(trace.pcm) == 12_000
    assert [one.i for one in trace.words() if one.end is not None] == [0, 1]


def test_text_cannot_become_an_option_or_a_shell_command(tmp_path):
    heard = tmp_path / "heard"
    script = tmp_path / "program"
    script.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" >> {heard}\ncat {sound_file(tmp_path / 'a.wav')}\n")
    script.chmod(0o755)
    spoken({"kind": "command", "command": f"{script} {{text}}"}, "-o /etc/passwd; $(touch x) `id`")
    assert heard.read_text().splitlines() == [" -o /etc/passwd;", "$(touch x) `id`"]


def test_the_program_does_not_see_the_studios_key(tmp_path, monkeypatch):
    monkeypatch.setenv("STUDIO_SERVE_KEY", "a-secret-of-the-studio")
    assert "it said nothing" in failure(shell("echo $STUDIO_SERVE_KEY >&2; exit 1"))


def test_a_cancel_stops_the_program_and_reports_what_was_heard(tmp_path):
    wav, alive = sound_file(tmp_path / "a.wav", 2.0), tmp_path / "alive"
    script = f"cat {wav}; sleep 60; touch {alive}"
    with opened(shell(script) | {"timeout_s": 60}) as engine:
        utterance = engine.open(SpeakRequest())
        utterance.push_text("One two three four. ")
        events = utterance.events()
        made = 0
        for event in events:
            if isinstance(event, Audio):
                made += len(event.pcm)
            if made >= 48_000:
                break
        process = utterance._task
        utterance.cancel(24_000)
        rest = [*events]
        cancelled = next(one for one in rest if isinstance(one, Cancelled))
        assert cancelled.sample == 24_000 and cancelled.heard in ([0], [0, 1], [0, 1, 2])
        assert isinstance(rest[-1], Ended)
        until_s = time.monotonic() + 5
        while not process.done() and time.monotonic() < until_s:
            time.sleep(0.01)
        assert process.done() and engine.free_slots() == 4
    assert not alive.exists()


def test_words_come_one_by_one(tmp_path):
    """The first cut is spoken while later text is missing."""
    with opened(shell(f"cat {sound_file(tmp_path / 'a.wav')}")) as engine:
        utterance = engine.open(SpeakRequest())
        for word in "Hello there, ".split(" "):
            utterance.push_text(f"{word} ")
        kinds: list[type] = []
        for event in utterance.events():
            kinds.append(type(event))
            if isinstance(event, Audio):
                break
        assert kinds[0] is Ready and Committed in kinds and Segment in kinds
        utterance.push_text("and good")
        utterance.flush()  # commits "and"
        utterance.end()
        assert isinstance([*utterance.events()][-1], Ended)


def test_credit_holds_the_sound_back(tmp_path):
    with opened(shell(f"cat {sound_file(tmp_path / 'a.wav', 2.0)}")) as engine:
        utterance = engine.open(SpeakRequest(credit_samples=6000))
        utterance.push_text("Hello.")
        utterance.end()
        until_s = time.monotonic() + 10
        while utterance.samples < 6000 and time.monotonic() < until_s:
            time.sleep(0.01)
        time.sleep(0.1)
        assert utterance.samples == 6000
        utterance.grant(100_000)
        assert sum(len(one.pcm) for one in utterance.events() if isinstance(one, Audio)) == 48_000


def test_one_that_hangs_holds_nobody_up_and_the_next_waits_for_its_slot(tmp_path):
    wav = sound_file(tmp_path / "a.wav")
    script = f'read -r text; case "$text" in Hang*) sleep 60;; esac; cat {wav}'
    with opened(shell(script) | {"timeout_s": 1.0, "max_concurrent": 2}) as engine:
        hanging = engine.open(SpeakRequest())
        hanging.push_text("Hang here.")
        hanging.end()
        began_s = time.monotonic()
        others: list[object] = []

        def speak() -> None:
            others.append(speak_once(engine, SpeakRequest(), "Hello.").events[-1])

        threads = [threading.Thread(target=speak) for _ in range(3)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(10)
        assert [type(one) for one in others] == [Ended] * 3
        assert isinstance([*hanging.events()][-1], Failed) and time.monotonic() - began_s < 8
        assert engine.load().failed == 1


def test_text_without_words_ends_without_sound():
    assert isinstance(spoken(shell("exit 1"), "... -- !").events[-1], Ended)


def test_visitors_are_not_told_why_a_system_failed(caplog):
    system = check_system("other", shell("echo /secret/place >&2; exit 3"))
    with closing(RemoteEngine("other", system, hides_failures=True)) as engine:
        last = speak_once(engine, SpeakRequest(), TEXT).events[-1]
    assert last.message == "the system other failed; the server's log says why"
    assert "/secret/place" in caplog.text
