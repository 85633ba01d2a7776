"""Normal client behaviour: typing, streaming, several utterances, flush, cancel, options, failure."""

import time

import numpy as np
from fakeutterance import FakeUtterance
from serve.serving import Serving, Talk, eventually, kinds, of, pcm
from tones import Script

FIVE = "Hello there my good friend"


def type_text(talk: Talk, text: str, utterance: int = 1, pause_s: float = 0.0) -> None:
    for at, letter in enumerate(text):
        talk.say("edit", utterance, at=at, remove=0, insert=letter)
        time.sleep(pause_s)


def samples_of(text: str) -> int:
    return 600 * sum(FakeUtterance.frames_of(word) for word in text.split())


def test_typed_text_is_received_in_order(serving: Serving) -> None:
    with serving().talk() as talk:
        assert talk.hello["voices"][0]["name"] == "tone"
        ready = talk.open(voice="tone:high", seed=7, source="keyboard", options={"m": 2}, credit_ms=60_000)
        assert (ready["speaker"], ready["seed"], ready["options"]["m"], ready["utterance"]) == ("high", 7, 2, 1)
        type_text(talk, FIVE, pause_s=0.005)
        talk.say("end")
        heard = talk.until("trace")
    assert len(pcm(heard)) == samples_of(FIVE) == of(heard, "ended")[0]["samples"]
    assert np.abs(pcm(heard)).max() > 1000
    assert [one["word"] for one in of(heard, "committed")] == FIVE.lower().split()
    assert [one["words"] for one in of(heard, "segment")] == [[0], [1], [2], [3], [4]]
    times = [one["t_ms"] for one in heard if isinstance(one, dict) and "t_ms" in one]
    assert times == sorted(times)
    assert kinds(heard)[-2:] == ["ended", "trace"]
    assert not of(heard, "error")
    first_packet = next(k for k, one in enumerate(heard) if not isinstance(one, dict))
    assert "friend" not in [one["word"] for one in of(heard[:first_packet], "committed")], "audio came while typing"
    starts, ends = of(heard, "word_start"), of(heard, "word_end")
    assert [s["sample"] for s in starts[1:]] == [e["sample"] for e in ends[:-1]]


def test_streamed_text_is_spoken_as_it_arrives(serving: Serving) -> None:
    with serving().talk() as talk:
        talk.open()
        for piece in ("Hel", "lo the", "re my good fri", "end"):
            talk.say("text", text=piece)
        talk.say("end")
        heard = talk.until("trace")
    assert "".join(one["text"] for one in of(heard, "text")) == FIVE
    assert [one["char_start"] for one in of(heard, "text")] == [0, 3, 9, 23]


def test_two_utterances_share_a_socket(serving: Serving) -> None:
    with serving(script=Script(speed=4.0)).talk() as talk:
        talk.say("open", 7, voice="tone:low", credit_ms=60_000)
        talk.say("open", 9, voice="tone:high", credit_ms=60_000)
        for number in (7, 9):
            talk.say("text", number, text=FIVE)
            talk.say("end", number)
        heard = talk.until("trace")
        other = 16 - heard[-1]["utterance"]
        heard += talk.until("trace", utterance=other)
    for number in (7, 9):
        assert len(pcm(heard, number)) == samples_of(FIVE)
        assert kinds(heard, number)[-2:] == ["ended", "trace"]
    first_end = kinds(heard).index("ended")
    assert {7, 9} == {one["utterance"] for one in of(heard, "word_start")[:first_end]}
    low, high = (np.argmax(np.abs(np.fft.rfft(pcm(heard, number)[:6000]))) * 4 for number in (7, 9))
    assert (low, high) == (220, 440)


def test_idle_flushes_the_keyboard_only(serving: Serving) -> None:
    server = serving(idle_flush_ms=150)
    with server.talk() as talk:
        talk.open(1, source="keyboard", options={"m": 5})
        talk.open(2, source="stream", options={"m": 5})
        talk.say("edit", 1, at=0, remove=0, insert="two words ")
        talk.say("text", 2, text="two words ")
        heard = talk.quiet(0.8)
        assert len(of(heard, "flushed", 1)) == 1
        assert not of(heard, "flushed", 2)
        assert len(pcm(heard, 1)) == samples_of("two words")
        assert len(pcm(heard, 2)) == 0
        talk.say("flush", 2)
        assert len(pcm(talk.quiet(0.5), 2)) == samples_of("two words")


def test_cancel_reports_the_heard_words(serving: Serving) -> None:
    with serving(script=Script(speed=40.0)).talk() as talk:
        talk.open(credit_ms=2000)
        talk.say("text", text=FIVE + " " + FIVE + " ")
        second_end = [talk.until("word_end")[-1]["sample"] for _ in range(2)][1]
        talk.say("cancel", played_sample=second_end + 600)
        rest = talk.until("trace")
    assert of(rest, "cancelled")[0]["heard"] == [0, 1]
    assert kinds(rest)[-3:] == ["cancelled", "ended", "trace"]


def test_options_change_within_a_text(serving: Serving) -> None:
    with serving().talk() as talk:
        talk.open(options={"m": 5})
        talk.say("text", text="one two three ")
        talk.say("options", options={"m": 2})
        heard = talk.until("word_end")
        assert of(heard, "options")[0]["options"]["m"] == 2
        talk.say("options", options={"m": 9})
        assert talk.until("error")[-1]["code"] == "bad_option"


def test_failed_utterance_reports_an_error_and_keeps_its_trace(serving: Serving) -> None:
    server = serving(script=Script(speed=20.0, fail_at_word=1))
    with server.talk() as talk:
        talk.open()
        talk.say("text", text=FIVE)
        talk.say("end")
        heard = talk.until("trace")
        assert kinds(heard)[-2:] == ["failed", "trace"]
        assert talk.open(2)["type"] == "ready"


def test_late_reports_are_no_error(serving: Serving) -> None:
    with serving().talk() as talk:
        talk.open()
        talk.say("text", text="hello")
        talk.say("end")
        talk.until("trace")
        talk.say("played", sample=7200, buffered_ms=0.0, underruns=0, output_latency_ms=10.0)
        talk.say("cancel", played_sample=7200)
        talk.say("text", text="more")
        assert talk.hear()["code"] == "closed"


def test_number_may_be_reused(serving: Serving) -> None:
    server = serving()
    with server.talk() as talk:
        for _ in range(3):
            talk.open(1)
            assert talk.open(1)["code"] == "bad_message"
            talk.say("cancel")
            talk.until("trace")
    eventually(lambda: server.engine.free_slots() == 4, "every place")


def test_finished_keyboard_can_edit_unheard_text(serving: Serving) -> None:
    with serving(script=Script(speed=8.0)).talk() as talk:
        talk.open(source="keyboard", credit_ms=300)
        talk.say("edit", at=0, insert=FIVE)
        talk.say("end")
        heard = talk.until("word_start")
        talk.say("edit", at=FIVE.index("friend"), remove=6, insert="enemy")
        talk.say("edit", at=len(FIVE) - 1, insert=" more")
        heard += talk.until("error")
        assert heard[-1]["code"] == "closed"  # nothing can be appended
        talk.say("edit", at=0, remove=5, insert="Greetings")
        heard += talk.until("edited")
        talk.say("played", sample=24_000)
        while heard[-1]["type"] != "trace":
            heard += talk.until("trace", "word_end")
            talk.say("played", sample=240_000)
    assert [one["word"] for one in of(heard, "committed")][-1] == "enemy"
    assert of(heard, "ended")[0]["samples"] == samples_of("Hello there my good enemy")


def test_markdown_is_left_out_as_it_comes(serving: Serving) -> None:
    server = serving()
    with server.talk() as talk:
        talk.open(markup="markdown")
        for letter in "<think>hidden</think>**Hello the":
            talk.say("text", text=letter)
        assert talk.until("text")[-1]["text"] == "Hello "  # while the emphasis is open
        for piece in ("re** my [go", "od](https://example.org 'a b') `fri", "end`"):
            talk.say("text", text=piece)
        talk.say("end")
        heard = talk.until("trace")
    assert server.engine.opened[-1]._text.split() == FIVE.split()
    assert [one["word"] for one in of(heard, "committed")][-1] == "friend"


def test_markdown_can_be_flushed_and_not_revised(serving: Serving) -> None:
    server = serving()
    with server.talk() as talk:
        talk.open(markup="markdown")
        talk.say("text", text="- Hello\n")
        talk.say("flush")
        assert talk.until("committed")[-1]["word"] == "hello"
        talk.say("revise", at=0, text="Good")
        error = talk.until("error")[-1]
        assert error["code"] == "bad_message" and "without 'markup'" in error["message"]
        talk.say("end")
        talk.until("trace")
        talk.say("open", 2, source="keyboard", markup="markdown")
        assert "'stream'" in talk.until("error")[-1]["message"]


def test_text_without_words_ends(serving: Serving) -> None:
    with serving().talk() as talk:
        talk.open(markup="markdown")
        talk.say("text", text="```\nprint(1)\n```\n")
        talk.say("end")
        assert of(talk.until("trace"), "ended")[0]["samples"] == 0


def test_what_is_left_out_counts_as_text(serving: Serving) -> None:
    with serving(max_text_chars=1000).talk() as talk:
        talk.open(markup="markdown")
        talk.say("text", text="<think>" + "x" * 900)
        talk.say("text", text="y" * 900)
        assert talk.until("error")[-1]["code"] == "bad_text"


def test_ssml_and_breaks_are_one_utterance(serving: Serving) -> None:
    with serving().talk() as talk:
        talk.open(1, markup="ssml")
        for piece in ("<speak>alpha <brea", 'k time="500ms"/><prosody rate="50%">beta', "</prosody></speak>"):
            talk.say("text", 1, text=piece)
        talk.say("end", 1)
        heard = talk.until("ended", "failed")
        assert [one["word"] for one in of(heard, "committed")] == ["alpha", "beta"]
        sound = pcm(heard)
        assert heard[-1]["samples"] == len(sound)
        start, end = of(heard, "word_start")[1]["sample"], of(heard, "word_end")[0]["sample"]
        assert not sound[end:start].any() and start - end >= 12_000
        talk.open(2, markup="breaks")
        talk.say("text", 2, text='alpha <break time="500ms"/> beta')
        talk.say("end", 2)
        again = talk.until("ended", "failed", utterance=2)
        assert "".join(one["text"] for one in of(again, "text", 2)) == 'alpha <break time="500ms"/> beta'
        talk.open(3, markup="ssml")
        talk.say("text", 3, text="<b>alpha</b>")
        talk.say("end", 3)
        assert "<b> is not supported" in talk.until("ended", "failed", utterance=3)[-1]["message"]
