"""The laws over every registered family, including one from another package, in real batches.

A new family needs a tiny net in ``tinyvoice.NETS``.
"""

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import tinyvoice
import torch
from listening import FRAME, Listener, is_consistent
from toyfamily import Config, Net, installed

from studio.core import events as ev
from studio.core.cards import Card
from studio.core.errors import BadOption, BadVoice, TooLate
from studio.core.options import default_options
from studio.core.ports import SpeakRequest
from studio.core.traces.trace import collect_trace
from studio.engine.engine import LocalEngine, open_engine
from studio.engine.families.base import family_info, family_names
from studio.engine.voices import Voice, load_voice
from studio.text import phonemes
from studio.text.normalise import best

torch.set_num_threads(1)  # more threads stall on a busy machine

TEXT = "the morning light came in, slowly, over the wall."
ROWS = 8
BY_RATIO = ("ist",)  # fixed ratio of text to speech tokens: a word starts at once, and its end needs more text
DELAYED = ("dsm",)  # speech follows text by a delay, in which more words are fed: see Segment.seen
BY_CLAUSES: dict[str, tuple[dict[str, Any], int]] = {  # a clause needs all its words: see Segment.seen
    "tacotron": ({"clause_words": 2}, 1),
    "richtts": ({"mode": "ngram", "n": 2}, 1),
    "ngram-richtts": ({"n": 2}, 1),
    "t5": ({"sentence_words": 2}, 1),
}
CANNOT_REVISE = ("toy",)  # every other family supports revision of text not played yet
COMPARED_AT = (1, 9, 16)  # engine steps: an early one, and two in mid-stream with rows at different positions


@pytest.fixture(scope="module", params=[*family_names(), "toy"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    root = tmp_path_factory.mktemp("voices")
    with pytest.MonkeyPatch.context() as patch, installed(tmp_path_factory.mktemp("site")):
        assert "toy" in family_names(), "the family of another package is results by its entry point"
        patch.setitem(tinyvoice.NETS, "toy", lambda _: Net(Config()))
        assert request.param in tinyvoice.NETS, f"give tests/tinyvoice.py a tiny net of the family {request.param}"
        tinyvoice.write_tiny_voice(root, family=request.param)
        engine = open_engine(root, best(), device="cpu", threads=1, slots=ROWS)
        yield engine
        engine.close()


def choices(card: Card) -> list[dict[str, Any]]:
    """The defaults, and each option at its bounds or choices."""
    base = default_options(card.options)
    results = [base]
    for spec in card.options:
        ends = spec.choices if spec.kind == "choice" else (spec.low, spec.high)
        results += [{**base, spec.name: value} for value in ends if value not in (None, base[spec.name])]
    return results


def speak(engine: LocalEngine, pieces: list[str], *, options: Mapping[str, Any] | None = None, seed: int = 3) -> Any:
    """The events of a text sent in pieces; None if the options are incompatible."""
    try:
        utterance = engine.open(SpeakRequest(seed=seed, options=options or {}))
    except BadOption:
        return None
    for piece in pieces:
        utterance.push_text(piece)
    utterance.end()
    return [*utterance.events()]


def of(kind: type, events: list[ev.Event]) -> list[Any]:
    return [one for one in events if isinstance(one, kind)]


def pcm(events: list[ev.Event]) -> np.ndarray:
    return np.concatenate([one.pcm for one in of(ev.Audio, events)] or [np.zeros(0, np.int16)])


def test_laws_1_4_and_5_pieces_counts_and_order(engine: LocalEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    voice, finite = engine.voice(engine.cards()[0].name), list[bool]()
    run = voice.vocode.run

    def watched(*given: Any) -> list[np.ndarray]:
        results = run(*given)
        finite.extend(bool(np.isfinite(one).all()) for one in results)
        return results

    monkeypatch.setattr(voice.vocode, "run", watched)
    spoken = 0
    for options in choices(voice.card):
        events = speak(engine, [*TEXT], options=options)
        if events is None:
            continue
        spoken += 1
        sound = pcm(events)
        assert np.array_equal(sound, pcm(speak(engine, [TEXT], options=options))), "law 1"
        frames = sum(len(one.levels) for one in of(ev.Frames, events))
        assert frames * voice.card.frame_samples == len(sound) == events[-1].samples > 0
        assert all(math.isfinite(p) for one in of(ev.Frames, events) for p in one.p_eos)
        assert all(math.isfinite(one.p) for one in of(ev.Eos, events))
        assert [ev.is_last(one) for one in events] == [False] * (len(events) - 1) + [True]
        words, segments = [one.i for one in of(ev.Committed, events)], of(ev.Segment, events)
        assert [i for one in segments for i in one.words] == words and segments[0].sample == 0
        assert all(a.sample <= b.sample for a, b in pairwise(segments))
        starts, ends = of(ev.WordStart, events), of(ev.WordEnd, events)
        assert [one.i for one in starts] == [one.i for one in ends] == words
        assert all(a.sample <= b.sample for a, b in zip(starts, ends, strict=True))
        assert all(a.sample <= b.sample for a, b in zip(ends, starts[1:], strict=False))
    assert spoken and finite and all(finite), "law 4: nothing but numbers leaves"


def _in_what_segments_say(engine: LocalEngine, options: Mapping[str, Any], look_ahead: int) -> None:
    """A segment starts once the words in ``seen`` are committed, and later text does not change its samples."""
    words = TEXT.replace(",", "").split()
    whole = speak(engine, [" ".join(words)], options=options)
    due = [one for one in of(ev.Segment, whole) if max(one.seen) < len(words) - 1]
    assert len(due) >= 3 and all(max(one.seen) >= one.words[0] + look_ahead for one in due)
    utterance = engine.open(SpeakRequest(seed=3, options=options))
    stream, got, pushed = utterance.events(), list[ev.Event](), 0
    for segment in due:
        for word in words[pushed : max(segment.seen) + 1]:
            utterance.push_text(word + " ")
            pushed += 1
        while segment.index not in [one.index for one in of(ev.Segment, got)]:
            got.append(next(stream))
            assert not ev.is_last(got[-1])
    utterance.push_text("and then it was another text to its end ")
    utterance.end()
    got += [next(stream), *stream]
    said = due[-1].sample
    assert said > 0 and np.array_equal(pcm(got)[:said], pcm(whole)[:said])
    assert not np.array_equal(pcm(got), pcm(whole))


def test_law_7_nothing_waits_and_nothing_peeks(engine: LocalEngine) -> None:
    """Word i is spoken before word i + L + 1 is pushed, and later text changes no sample of it."""
    card, words = engine.cards()[0], TEXT.replace(",", "").split()
    if card.family in DELAYED:
        _in_what_segments_say(engine, {}, card.look_ahead_words)
        return
    if card.family in BY_CLAUSES:
        _in_what_segments_say(engine, *BY_CLAUSES[card.family])
        return
    by_ratio = card.family in BY_RATIO
    utterance = engine.open(SpeakRequest(seed=3))
    stream, got = utterance.events(), list[ev.Event]()

    def out() -> int:
        if by_ratio:
            return len({i for one in of(ev.Segment, got) for i in one.words})
        return len(of(ev.WordEnd, got))

    for i, word in enumerate(words[:6]):
        utterance.push_text(word + " ")
        while i >= card.look_ahead_words and out() < i - card.look_ahead_words + 1:
            got.append(next(stream))
            assert not ev.is_last(got[-1])
    utterance.push_text("and then it was another text to its end ")
    utterance.end()
    said = of(ev.Segment if by_ratio else ev.WordEnd, got)[-1].sample
    changed = [*got, *stream]
    whole = speak(engine, [" ".join(words)])
    assert said > 0 and np.array_equal(pcm(changed)[:said], pcm(whole)[:said])


# ---------------------------------------------------------------- law 6: revision


WORDS = "one two three four five six seven eight nine ten eleven twelve".split()


def text(words: list[str]) -> str:
    return "".join(f"{word} " for word in words)


def revisable(engine: LocalEngine, words: list[str] = WORDS, **more: Any) -> Listener:
    """A listener to a text of several words, with options for short clauses."""
    options, _ = BY_CLAUSES.get(engine.cards()[0].family, ({}, 0))
    listener = Listener(engine, options, **more)
    listener.utterance.push_text(text(words))
    listener.utterance.end()
    return listener


def partly_synthesized(engine: LocalEngine, words: list[str] = WORDS) -> tuple[Listener, int]:
    """A listener whose credit covers three quarters of the samples, and the number of all samples."""
    whole = len(revisable(engine, words).rest().pcm)
    listener = revisable(engine, words, credit_samples=whole * 3 // 4)
    listener.held()
    return listener, whole


def test_law_6_families_without_revision_refuse_it(engine: LocalEngine) -> None:
    listener = revisable(engine, credit_samples=4 * FRAME)
    if engine.cards()[0].family in CANNOT_REVISE:
        with pytest.raises(TooLate, match="cannot revise text"):
            listener.utterance.revise(len(text(WORDS[:11])), "other ")
    else:
        listener.utterance.revise(len(text(WORDS[:11])), "other ")
    assert [word.text for word in listener.rest().words()][:11] == WORDS[:11]


def test_law_6_the_same_text_changes_no_sample(engine: LocalEngine) -> None:
    if engine.cards()[0].family in CANNOT_REVISE:
        return
    straight = revisable(engine).rest()
    listener, _ = partly_synthesized(engine)
    at = listener.utterance.settled_chars()
    listener.utterance.revise(at, text(WORDS)[at:])
    trace = listener.rest()
    assert not listener.of(ev.Revised) and np.array_equal(trace.pcm, straight.pcm)


def test_law_6_replaced_words_that_the_net_has_not_seen_leave_no_trace(engine: LocalEngine) -> None:
    if engine.cards()[0].family in CANNOT_REVISE:
        return
    new = [*WORDS[:6], "other", "words"]
    listener, _ = partly_synthesized(engine, WORDS[:8])  # few words: DSM-TTS cannot restore what its slot has dropped
    listener.utterance.revise(len(text(WORDS[:6])), text(new[6:]))
    trace, straight = listener.rest(), revisable(engine, new).rest()
    is_consistent(trace)
    assert [word.text for word in trace.words()] == new
    assert np.array_equal(trace.pcm, straight.pcm) and np.array_equal(trace.frames, straight.frames)


@pytest.mark.parametrize("then", [["and", "another", "one"], []], ids=["more", "nothing"])
@pytest.mark.parametrize("heard", [0.1, 0.3, 0.5])
def test_law_6_played_samples_stay_and_the_new_text_follows(engine: LocalEngine, heard: float, then: list[str]) -> None:
    """Repeated revisions from the first revisable character on."""
    if engine.cards()[0].family in CANNOT_REVISE:
        return
    listener, whole = partly_synthesized(engine)
    played = round(whole * heard)
    listener.utterance.played(played)
    before = collect_trace({}, listener.events).pcm
    at = listener.utterance.settled_chars()
    assert 0 < at < len(text(WORDS))
    with pytest.raises(TooLate, match="said or being said"):
        listener.utterance.revise(at - 1, "x")
    stay = text(WORDS)[:at].split()
    cuts = list[int]()
    for words in (["other", "words"] * 8, ["quite", "other", "words", "now"] * 4, then):  # more than its credit says
        listener.utterance.revise(at, text(words))
        cuts.append(listener.until(ev.Revised).from_sample)
    trace = listener.rest()
    is_consistent(trace)
    assert min(cuts) >= played and np.array_equal(trace.pcm[: min(cuts)], before[: min(cuts)])
    assert [word.text for word in trace.words()] == [*stay, *then]
    assert len(trace.pcm) > min(cuts) or not then


def test_law_3_samples_do_not_depend_on_the_batch(engine: LocalEngine) -> None:
    """Eight requests together, two of them cancelled: each gives the samples that it gives alone."""
    card = engine.cards()[0]
    texts = [TEXT[4 * k :] for k in range(ROWS)]
    speakers = [card.speakers[k % len(card.speakers)] for k in range(ROWS)]
    requests = [SpeakRequest(voice=f"{card.name}:{one}", seed=k) for k, one in enumerate(speakers)]

    def begin(k: int) -> Any:
        utterance = engine.open(requests[k])
        utterance.push_text(texts[k])
        return utterance

    alone = []
    for k in range(ROWS):
        utterance = begin(k)
        utterance.end()
        alone.append(pcm([*utterance.events()]))
    together = []
    for k in range(ROWS):
        together.append(begin(k))
        if k == 4:
            together[1].cancel()
        if k not in (1, 6):
            together[k].end()
    together[6].cancel()
    for k, utterance in enumerate(together):
        sound = pcm([*utterance.events()])
        assert np.array_equal(sound, alone[k][: len(sound)]), f"utterance {k}"
        assert k in (1, 6) or len(sound) == len(alone[k]) > 0


@pytest.mark.parametrize("device", ["cpu", *(["cuda"] if torch.cuda.is_available() else [])])
def test_law_3_one_row_unpadded_against_eight(engine: LocalEngine, device: str) -> None:
    """A row alone and among eight, from the same slots: equal outputs and state within 1e-4 (float32)."""
    card = engine.cards()[0]
    voice = load_voice(card, engine._folders[card.name], torch.device(device), ROWS)
    options, rows = choices(card), []
    for k in range(ROWS):
        row = voice.open(k % len(card.speakers), options[0], 0.7, seed=k)
        row.commit(TEXT.replace(",", "").replace(".", "").split()[k % 4 :])
        row.end()
        rows.append(row)
    compared, slots = 0, ROWS * voice.family.slots_per_row
    for turn in range(max(COMPARED_AT) + 1):
        pending = [(row, next_input) for row in rows if (next_input := row.next_input()) is not None]
        for name, module in voice.family.modules.items():
            here = [(row, next_input) for row, next_input in pending if next_input.module == name]
            for first in range(0, len(here), module.max_rows):
                batch = here[first : first + module.max_rows]
                shared = len(batch) > 1 and turn in COMPARED_AT
                before = copy.deepcopy(voice.family.slots) if shared else None
                results = module.run(voice.family.slots, [row.slots for row, _ in batch], [w.inputs for _, w in batch])
                for k, (row, next_input) in enumerate(batch):
                    if before is not None:
                        (alone,) = module.run(before, [row.slots], [next_input.inputs])
                        _same(alone, results[k], exactly=device == "cpu")
                        for slot in row.slots:
                            compared += _same_slots(before, voice.family.slots, slot, slots)
                    row.on_output(results[k])
    assert compared, "no two rows were ever in one batch"


def _same(one: Any, other: Any, *, exactly: bool) -> None:
    """Compare outputs: floats within 1e-4 relative, samples exactly."""
    if is_dataclass(one):
        for field in fields(one):
            _same(getattr(one, field.name), getattr(other, field.name), exactly=exactly)
    elif isinstance(one, tuple | list):
        for mine, theirs in zip(one, other, strict=True):
            _same(mine, theirs, exactly=exactly)
    elif isinstance(one, float | np.floating) or (isinstance(one, np.ndarray) and one.dtype.kind == "f"):
        np.testing.assert_allclose(_logit(one), _logit(other), rtol=1e-4, atol=1e-4)
    elif exactly:  # rounding on a GPU may change a sample
        assert np.array_equal(one, other)


def _logit(p: Any) -> np.ndarray:
    """The logit of a probability; any other number unchanged."""
    values = np.asarray(p, np.float64)
    inside = (values > 0) & (values < 1)
    return np.where(inside, np.log(np.where(inside, values, 0.5) / (1 - np.where(inside, values, 0.5))), values)


def _same_slots(one: Any, other: Any, slot: int, slots: int) -> int:
    """Compare all float tensors whose first dimension is the slot; returns their number."""
    if isinstance(one, torch.Tensor):
        if one.dim() == 0 or one.shape[0] != slots or not one.is_floating_point():
            return 0
        assert torch.allclose(one[slot], other[slot], rtol=1e-4, atol=1e-4, equal_nan=True)
        return 1
    if isinstance(one, list | tuple):
        return sum(_same_slots(a, b, slot, slots) for a, b in zip(one, other, strict=True))
    if isinstance(one, Mapping):
        return sum(_same_slots(one[key], other[key], slot, slots) for key in one)
    mine, theirs = getattr(one, "__dict__", {}), getattr(other, "__dict__", {})
    return sum(_same_slots(mine[name], theirs[name], slot, slots) for name in mine)


def test_g2p_runs_outside_this_process(engine: LocalEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    guesses = phonemes._g2p_cache()
    monkeypatch.setattr(guesses, "_net", lambda word: 1 / 0)  # in this process
    family = engine.cards()[0].family
    own = "".join(filter(str.isalpha, family))  # unknown to the caches
    events = speak(engine, [f"the {own}blor came in, over {own}wiv walls."])
    assert isinstance(events[-1], ev.Ended) and len(pcm(events))
    if family in ("s5", "t5", "tacotron"):  # they read phonemes
        assert {f"{own}blor", f"{own}wiv"} <= guesses._cache.keys()


def test_an_unknown_family_is_reported_with_the_registered_ones() -> None:
    with pytest.raises(BadVoice, match=r"registered families: .*speakstream"):
        family_info("nobody")


def test_slots_are_freed(engine: LocalEngine) -> None:
    voice: Voice = engine.voice(engine.cards()[0].name)
    assert engine.free_slots() == ROWS
    assert sorted(voice.free_slots) == [*range(ROWS * voice.family.slots_per_row)]
