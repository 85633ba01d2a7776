"""Words that the net has seen are revised: what it made of them is fed again with the new ones, and stays."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tinyvoice
import torch
from torch import Tensor

from studio.core.cards import read_card
from studio.core.options import default_options
from studio.engine.families.base import RevisableRow
from studio.engine.families.common.text_tokens import spell
from studio.engine.families.s5.model import S5, S5Config
from studio.engine.voices import Voice, load_voice

WORDS = "one two three four five six seven eight".split()
OTHER = "quite different words now".split()
SPOKEN = 3  # words, when others are revised


class Spoken:
    """An utterance run by hand, turn by turn."""

    def __init__(self, voice: Voice, words: list[str], **options: Any) -> None:
        self.family = voice.family
        chosen = default_options(voice.card.options) | options
        row = voice.open(0, chosen, 0.7, seed=3)
        assert isinstance(row, RevisableRow)
        self.row, self.frames = row, list[np.ndarray]()
        self.row.commit(words)
        self.row.end()

    def step(self) -> Any:
        """One more; what was fed."""
        next_input = self.row.next_input()
        assert next_input is not None
        (found,) = self.family.modules[next_input.module].run(self.family.slots, [self.row.slots], [next_input.inputs])
        self.frames += [*self.row.on_output(found).frames]
        return next_input.inputs

    def until_spoken(self, words: int) -> Any:
        """Go on to the mark after so many words."""
        while (mark := self.row.checkpoint()) is None or mark.spoken < words:
            self.step()
        return mark

    def rest(self) -> np.ndarray:
        """All frames to the end."""
        while not self.row.is_finished:
            self.step()
        return np.stack(self.frames)

    def revise(self, i: int, words: list[str]) -> None:
        """The words from one on are others."""
        self.row.rewrite(i, [])
        self.row.commit(words)
        self.row.end()

    def held(self, memory: Any, tokens: int) -> list[Tensor]:
        """Keys and values of the first tokens of the row's first slot."""
        slot = self.row.slots[0]
        return [one[slot, :, :tokens].clone() for one in (*memory.keys, *memory.values)]


def a_voice(root: Path, family: str, monkeypatch: pytest.MonkeyPatch, **sizes: Any) -> Voice:
    """A tiny one; ``sizes`` of its net are others."""
    if sizes:
        net = tinyvoice.NETS[family]
        monkeypatch.setitem(tinyvoice.NETS, family, lambda bias: net(bias, **sizes))
    folder = tinyvoice.write_tiny_voice(root, family=family)
    return load_voice(read_card(folder), folder, torch.device("cpu"), 2)


def difference(one: list[Tensor], other: list[Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(one, other, strict=True))


def net_with_references(end_bias: float) -> S5:
    """One whose speakers are told by what they said before, which every slot begins with."""
    torch.manual_seed(1)  # no word is cut: after one that is nothing is fed again
    net = S5(
        S5Config(2, 2, 64, 2, 128, 2, longest_word_frames=12, context_frames=60, kept_frames=30, reference_frames=20)
    )
    tinyvoice._draw([net.levels_out], [net.encoder, net.decoder, net.cross], net.stop_out, end_bias)
    for speaker in range(2):
        net.set_reference(speaker, spell("hˈaJ."), torch.randint(0, 16, (12, 80), dtype=torch.uint8))
    return net


@pytest.mark.parametrize(("k", "has_reference"), [(1, False), (3, False), (2, True)])
def test_s5_feeds_again_what_had_seen_the_word_and_there_and_back_is_the_same(tmp_path, monkeypatch, k, has_reference):
    if has_reference:
        monkeypatch.setitem(tinyvoice.NETS, "s5", net_with_references)
    voice = a_voice(tmp_path, "s5", monkeypatch)
    spoken = Spoken(voice, WORDS, k=k)
    mark = spoken.until_spoken(SPOKEN)
    cut, memory = len(spoken.frames), voice.family.slots.frames
    spoken.step()  # the frame before is fed over itself with the next word's view
    before = spoken.held(memory, mark.length)
    changes = list[float]()
    for words in (OTHER, WORDS[SPOKEN:]):
        spoken.row.restore(mark)
        del spoken.frames[cut:]
        spoken.revise(SPOKEN, words)
        fed = spoken.step()
        assert len(fed.again) == min(k, SPOKEN), "those who had the word in view"
        changes.append(difference(before, spoken.held(memory, mark.length)))
    assert changes[0] > 0.1 and changes[1] < 1e-4
    spoken.row.restore(mark)
    spoken.revise(SPOKEN, WORDS[SPOKEN:])
    assert not spoken.step().again, "the same text: nothing is fed again"


def test_s5_after_a_replay_goes_on_by_the_new_text(tmp_path, monkeypatch):
    """The words that follow are those of a text whose first words were said otherwise, not of the old text."""
    voice = a_voice(tmp_path, "s5", monkeypatch)
    old, spoken = Spoken(voice, WORDS).rest(), Spoken(voice, WORDS)
    mark = spoken.until_spoken(SPOKEN)
    cut = len(spoken.frames)
    spoken.until_spoken(SPOKEN + 2)
    spoken.row.restore(mark)
    del spoken.frames[cut:]
    spoken.revise(SPOKEN, OTHER)
    new = spoken.rest()
    assert np.array_equal(new[:cut], old[:cut]) and spoken.row.spoken == SPOKEN + len(OTHER)
    assert not np.array_equal(new[cut : cut + 4], old[cut : cut + 4])


@pytest.mark.parametrize("guidance", [1.0, 2.0])
def test_dsm_does_steps_again_with_the_sound_that_they_drew(tmp_path, monkeypatch, guidance):
    voice = a_voice(tmp_path, "dsm", monkeypatch, context_frames=200)
    straight, spoken = Spoken(voice, WORDS, guidance=guidance).rest(), Spoken(voice, WORDS, guidance=guidance)
    mark = spoken.until_spoken(SPOKEN)
    cut, memory = len(spoken.frames), voice.family.slots.steps
    before = spoken.held(memory, mark.at)
    changes = list[float]()
    for words in (OTHER, WORDS[SPOKEN:]):
        spoken.revise(SPOKEN, words)
        assert not spoken.row.can_restore(mark), "what was there is written over"
        steps, fed = 0, spoken.step()
        assert fed.begins and fed.groups == "none"
        while spoken.row.checkpoint() is None:
            fed, steps = spoken.step(), steps + 1
            assert not fed.begins and fed.groups == "none" and fed.last is not None
        assert steps and fed.at == mark.at - 1 and len(spoken.frames) == cut, "nothing is heard of it"
        mark = spoken.row.checkpoint()
        assert mark.spoken == SPOKEN
        changes.append(difference(before, spoken.held(memory, mark.at)))
    assert changes[0] > 0.1 and changes[1] == 0.0
    assert np.array_equal(spoken.rest(), straight)


def test_dsm_in_a_long_stretch_remembers_less_after_it_went_back(tmp_path, monkeypatch):
    """A ring holds what a step may look back to and no more: what was written over since is held no more."""
    voice = a_voice(tmp_path, "dsm", monkeypatch, context_frames=40)
    spoken = Spoken(voice, WORDS * 3)
    mark = spoken.until_spoken(15)
    cut = len(spoken.frames)
    told = spoken.step().start
    while len(spoken.frames) < cut + 10:
        spoken.step()
    assert spoken.row.can_restore(mark)
    reached = spoken.step().at + 1
    spoken.row.restore(mark)
    del spoken.frames[cut:]
    spoken.revise(20, OTHER)
    assert spoken.step().start == reached - 40 > told
    spoken.rest()
    assert spoken.row.spoken == 24
    first = Spoken(voice, WORDS * 3)
    far = first.until_spoken(2)
    first.until_spoken(8)
    assert not first.row.can_restore(far), "more than half of what it remembered is gone"
