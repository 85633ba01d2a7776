"""Boundaries with known answers: a net that knows the ends, speech cut at its words; interleaving by hand."""

import json
import shutil

import numpy as np
import pytest
import torch
from needs import needs
from safetensors.torch import save_file
from tinyvoice import write_tiny_bpe
from typer.testing import CliRunner

from studio.bench.evaluation.boundaries import (
    BoundarySetting,
    eval_boundaries,
    teacher_forced,
    unaided,
    window_adherence,
)
from studio.bench.evaluation.interleaving import eval_interleaving, heat_maps
from studio.bench.evaluation.settings import InterleavingSetting
from studio.bench.material import TeacherSpeech
from studio.cli import cli
from studio.core import events as ev
from studio.core.clips import to_float, to_int16, write_wav
from studio.core.errors import BadFile, BadVoice
from studio.core.folders import TEXTS, VOICES
from studio.core.traces.trace import collect_trace
from studio.engine.families.ist.policy import PAPER_RATIOS
from studio.engine.families.speakstream.model import SpeakStream, SpeakStreamConfig
from studio.engine.families.speakstream.policy import SpeakStreamOptions
from studio.engine.families.speakstream.runner import SpeakStreamFamily
from studio.engine.tokenizers import dmel
from studio.measure.recognisers.pocketsphinx import PocketSphinx
from studio.train.teachers.programs import Programs

RATE_HZ = dmel.TIME_BASE.rate_hz


@pytest.fixture(scope="module")
def taught(tmp_path_factory) -> TeacherSpeech:
    """One sentence by festival, as an evaluation stores it."""
    needs(shutil.which("festival"), "festival (apt-get install festival festvox-us-slt-hts)")
    folder = tmp_path_factory.mktemp("taught")
    (said,) = Programs().speak("slt", ["My sister sold the old brown horse at the market."])
    assert said is not None
    pcm = to_int16(dmel.resample(torch.from_numpy(to_float(said.pcm)), said.rate_hz, RATE_HZ).numpy())
    write_wav(folder / "0000.wav", pcm, RATE_HZ)
    keys = ("speaker", "text", "words", "word_ends_s", "phones")
    label = {"wav": "0000.wav", **{key: getattr(said, key) for key in keys}}
    return TeacherSpeech(folder, label, pcm)


class Ending(SpeakStream):
    """A net whose p_eos exceeds one half at given frames, counted from each segment's start."""

    def __init__(self, fires_at: int | None) -> None:
        super().__init__(SpeakStreamConfig(1, 32, 2, 64, 1))
        self.fires_at = fires_at

    def heads(self, hidden):
        levels, logits = super().heads(hidden)
        if self.fires_at is None:
            return levels, torch.full_like(logits, -9.0)
        return levels, torch.full_like(logits, 9.0)


@pytest.mark.parametrize("n", [1, 2])
def test_net_that_never_ends_misses_every_boundary(taught, n):
    figures = teacher_forced(Ending(None), ["slt"], [taught], SpeakStreamOptions("S1", 5, n))
    assert figures["misses"] == figures["boundaries"] == (9 if n == 1 else 4)
    assert figures["median_ms"] == float("inf")


def test_net_that_ends_at_once_is_a_word_too_early(taught):
    figures = teacher_forced(Ending(0), ["slt"], [taught], SpeakStreamOptions("S1", 5, 1))
    words_ms = 1000 * np.diff([0.0, *taught.word_ends_s])[1:]
    assert figures["misses"] == 0
    assert figures["median_ms"] == pytest.approx(np.median(words_ms), abs=60)


def test_net_that_learned_the_ends_is_within_half_a_frame(taught, monkeypatch):
    """The net gets the targets, so only the rounding of seconds to frames remains."""
    from studio.bench.evaluation import boundaries

    real = boundaries.interleave
    seen = []
    monkeypatch.setattr(boundaries, "interleave", lambda *a, **k: seen.append(real(*a, **k)) or seen[-1])
    net = Ending(0)
    net.heads = lambda hidden: (hidden, torch.from_numpy(np.where(seen[-1].stop == 1.0, 9.0, -9.0))[None])
    figures = teacher_forced(net, ["slt"], [taught], SpeakStreamOptions("S1", 5, 1))
    assert figures["misses"] == 0
    assert figures["p90_ms"] <= 12.6 + 12.5


@pytest.mark.parametrize(("late", "f1", "median_ms"), [(0, 1.0, 12.5), (3, 0.0, 75.0)])
def test_ends_found_by_p_eos_alone_are_scored_by_distance(taught, late, f1, median_ms):
    """A net that ends each segment at the teacher's word end, or three frames later."""
    from studio.bench.evaluation.boundaries import _sentence

    sentence, _ = _sentence(taught)
    due = [end + late for end in sentence.word_ends]
    net = Ending(None)
    family = SpeakStreamFamily(net, 1, torch.device("cpu"))
    at, segment = 0, 0

    def heads(hidden):
        nonlocal at, segment
        levels, logits = SpeakStream.heads(net, hidden)
        ends_after = due[segment] - at
        logits = torch.full_like(logits, -9.0)
        logits[ends_after:] = 9.0  # the first is of the text
        at, segment = due[segment], segment + 1
        return levels, logits

    net.heads = heads
    figures = unaided(family, ["slt"], [taught], {"scheme": "S1", "m": 5, "n": 1})
    assert figures["boundaries"] == 9 and figures["misses"] == 0
    assert figures["median_ms"] == pytest.approx(median_ms, abs=25.0)  # times are rounded to frames twice
    assert figures["f1_25_ms"] == pytest.approx(f1, abs=0.25)  # a word of three frames is hit by the end before it


def test_segments_cut_at_words_hold_and_shifted_ones_do_not(taught):
    words = taught.label["words"]
    text = " ".join(words)
    events: list[ev.Event] = [
        ev.Ready(utterance=1, voice="v", speaker="s", family="f", rate_hz=RATE_HZ, frame_samples=600, seed=0)
    ]
    at = 0
    for i, word in enumerate(words):
        events.append(ev.Committed(i=i, word=word, written=i, char_start=at, char_end=at + len(word)))
        at += len(word) + 1
    starts = [0, *(round(end * RATE_HZ) for end in taught.word_ends_s[:-1])]
    events.append(ev.Audio(sample=0, pcm=taught.pcm))

    def trace(shift: int):
        found = [
            ev.Segment(index=i, words=[i], seen=[i], sample=start + shift * (i > 0), frame=0)
            for i, start in enumerate(starts)
        ]
        return collect_trace({}, [*events, *found, ev.Eos(segment=0, frame=0, p=0.1, forced=True)])

    aligned = [PocketSphinx().align(taught.pcm, RATE_HZ, text)]
    good = window_adherence([trace(0)], aligned)
    assert good["obeyed"] >= 0.8
    assert good["forced"] == pytest.approx(1 / len(words))
    assert window_adherence([trace(RATE_HZ // 3)], aligned)["obeyed"] <= 0.4
    assert window_adherence([trace(0)], [None]) == good | {"obeyed": 0.0, "unaligned_texts": 1}


def test_family_without_p_eos_is_refused() -> None:
    asked = BoundarySetting(voices=VOICES, voice="finch", device="cpu", quiet=True, texts=TEXTS / "eval.txt")
    with pytest.raises(BadVoice, match="finch is of the family s5, which has no p_eos"):
        eval_boundaries(asked)


@pytest.fixture
def corpus(tmp_path):
    """One shard of one sentence of two words, six frames each and one more after them; and an encoding."""
    folder = tmp_path / "features"
    folder.mkdir()
    tensors = {
        "levels": torch.zeros(13, 80, dtype=torch.uint8),
        "phones": torch.zeros(13, dtype=torch.uint8),
        "frames": torch.tensor([13], dtype=torch.int32),
        "word_ends": torch.tensor([6, 12], dtype=torch.int32),
        "silence": torch.zeros(1, 80, dtype=torch.uint8),
    }
    meta = {"words": json.dumps([["the", "stone."]]), "speaker": "one"}
    save_file(tensors, folder / "one-000.safetensors", meta)
    write_tiny_bpe(tmp_path / "bpe.json")
    return folder, tmp_path / "bpe.json"


def test_figures_of_a_corpus_and_their_picture(corpus):
    features, bpe = corpus
    found = eval_interleaving(InterleavingSetting(features=features, bpe=bpe, quiet=True))
    assert (found["texts"], found["tokens_per_word"]) == (1, 1.5)
    assert found["frames_per_token"] == pytest.approx(13 / 3)
    # 1:4 of ▁the ▁stone . end: x0 y0-3 x1 y4-7 x2 y8-11 end y12
    assert found["ratios"]["1:4"]["mean_distance"][:2] == pytest.approx(
        [np.mean([1, 2, 3, 4, 6, 7]), np.mean([8, 9, 11, 12, 13, 14]) - 7.5]
    )
    figure = heat_maps(found)
    assert len(figure.data) == 4 and [*figure.data[0].x] == [*PAPER_RATIOS]
    assert np.array(figure.data[0].z).shape == (2, 12), "as many words as the longest sample has"


def test_command_names_missing_inputs_and_draws(corpus, tmp_path):
    features, bpe = corpus
    command = ["eval", "interleaving", "--features", str(features), "--bpe", str(bpe), "--json"]
    done = CliRunner().invoke(cli, [*command, "-o", str(tmp_path / "heat.html")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "heat.html").stat().st_size > 1e6, "it needs no network"
    with pytest.raises(BadFile, match="holds no features"):
        eval_interleaving(InterleavingSetting(features=tmp_path, bpe=bpe))
