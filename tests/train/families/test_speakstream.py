"""SpeakStream training sequences: cut by the family's policy, with the right target everywhere."""

import numpy as np
import pytest
import torch

from studio.engine.families.speakstream.model import SpeakStream, SpeakStreamConfig
from studio.engine.families.speakstream.policy import SCHEMES, W_EOS, SpeakStreamOptions, spell
from studio.engine.tokenizers import dmel
from studio.train.families.speakstream_fit import (
    BOS,
    EOS,
    FRAME,
    SYMBOL,
    SpeakStreamTrainingModule,
    collate,
    crop,
    interleave,
)
from studio.train.features import Sentence, typical_silence
from studio.train.fit.dataset import join_sentences
from studio.train.fit.resources import training_dtype
from studio.train.fit.training import WorkingCopy, rate_share
from studio.train.recipes.fits import WindowDraw

WORDS = ["one", "two,", "three", "four", "five."]
ENDS = [4, 9, 11, 17, 20]
TAIL = 3
DRAW = WindowDraw([1, 2, 3], [0.5, 0.3, 0.2], [0, 1, 2], [0.3, 0.4, 0.3], 0.3, 0.3, 0.3)


def sentence(offset: int = 0) -> Sentence:
    """Frame f has level (f + offset) % 16 in every channel."""
    total = ENDS[-1] + TAIL
    levels = np.repeat(((np.arange(total) + offset) % 16).astype(np.uint8)[:, None], dmel.CHANNELS, 1)
    return Sentence("slt", [*WORDS], [*ENDS], levels, np.arange(total).astype(np.uint8) % 40)


SILENCE = np.full((10, dmel.CHANNELS), 2, np.uint8)


def cut(options, prompt=8, text=None):
    return interleave(text or sentence(), SILENCE, options, np.random.default_rng(0), prompt=prompt)


def spelled(made) -> list[list[int]]:
    """Character ids between speech segments."""
    out, run = [], []
    for kind, value in zip(made.kind, made.value, strict=True):
        if kind == SYMBOL:
            run.append(int(value))
        elif kind == BOS:
            out.append(run)
            run = []
    return out


@pytest.mark.parametrize(
    "options",
    [
        SpeakStreamOptions("S1", 3, 1),
        SpeakStreamOptions("S1", 1, 1),
        SpeakStreamOptions("S1", 5, 2),
        SpeakStreamOptions("S2", 3, 2),
    ],
)
def test_every_frame_is_predicted_once_in_order(options):
    made = cut(options)
    closes = options.m > 1 or options.n > 1
    frames = made.target[made.target >= 0] - 8
    assert frames.tolist() == [*range(ENDS[-1] + (TAIL if closes else 0))]


def test_windows_are_spelled_and_closed_by_the_policy():
    made = cut(SpeakStreamOptions("S1", 3, 2))
    first, second, third = spelled(made)
    assert first == spell("one") + spell("two,") + spell("three")
    assert second == spell("three") + spell("four") + spell("five.")
    assert third == [*spell("five."), W_EOS]
    assert made.windows.tolist() == [[SCHEMES.index("S1"), 2, 1], [0, 2, 1], [0, 1, 0]]


def test_ends_are_at_the_ends_of_words():
    made = cut(SpeakStreamOptions("S1", 3, 1))
    stops = made.stop[~np.isnan(made.stop)]
    assert int(stops.sum()) == len(WORDS)
    last_frames = made.value[(made.kind == FRAME) & (made.stop == 1.0)] - 8
    assert last_frames.tolist() == [e - 1 for e in ENDS[:-1]] + [ENDS[-1] + TAIL - 1]
    assert (made.kind == EOS).sum() == len(WORDS)


def test_silence_prompt_is_fed_and_never_predicted():
    made = cut(SpeakStreamOptions("S1", 3, 1), prompt=12)
    assert made.levels[:12].max() == 2
    assert made.target[made.target >= 0].min() == 12
    first = int(np.flatnonzero(made.kind == BOS)[0])
    assert np.isnan(made.stop[first]) and (made.kind[first + 1 : first + 13] == FRAME).all()


def test_sampled_windows_cover_everything():
    for seed in range(50):
        made = interleave(sentence(), SILENCE, DRAW, np.random.default_rng(seed))
        prompt = len(made.levels) - ENDS[-1] - TAIL
        frames = (made.target[made.target >= 0] - prompt).tolist()
        assert frames in ([*range(ENDS[-1])], [*range(ENDS[-1] + TAIL)])
        assert 8 <= prompt <= 16 and made.windows[:, 1].sum() == len(WORDS)


def test_joined_sentences_keep_word_ends_and_a_pause_between():
    made = join_sentences([sentence(), sentence(5)], SILENCE, np.random.default_rng(1))
    pause = len(made.levels) - 2 * (ENDS[-1] + TAIL)
    assert 6 <= pause <= 12 and made.words == WORDS * 2
    at = ENDS[-1] + TAIL + pause
    assert made.word_ends == ENDS + [at + e for e in ENDS]
    assert (made.levels[at - pause : at] == 2).all() and made.levels[at, 0] == 5


def test_crop_starts_with_a_segments_text():
    made = cut(SpeakStreamOptions("S1", 3, 1))
    cropped = crop(made, made.starts[2])
    assert cropped.kind[0] == SYMBOL and len(cropped) == len(made) - made.starts[2]
    assert cropped.target[cropped.target >= 0].min() == 8 + ENDS[1]


def test_targets_of_a_batch_are_the_next_inputs():
    short = cut(SpeakStreamOptions("S1", 2, 1))
    long = cut(
        SpeakStreamOptions("S2", 4, 1),
        text=join_sentences([sentence(), sentence(3)], SILENCE, np.random.default_rng(0)),
    )
    batch = collate([short, long], ["rms", "slt"], 0.0, np.random.default_rng(0))
    rows, length = batch.symbols.shape
    assert (rows, length) == (2, len(long)) and batch.speaker.tolist() == [1, 1]
    assert len(batch.target_at) == len(batch.target_levels) == len(batch.target_phones)
    fed = dict(zip(batch.frame_at.tolist(), batch.frame_levels[:, 0].tolist(), strict=True))
    for at, level in zip(batch.target_at.tolist(), batch.target_levels[:, 0].tolist(), strict=True):
        assert fed[at + 1] == level  # targets are the next inputs
    assert sum(level == dmel.EOS for level in fed.values()) == 15
    noisy = collate([short], ["slt"], 1.0, np.random.default_rng(0))
    moved = noisy.frame_levels.int() - collate([short], ["slt"], 0.0, np.random.default_rng(0)).frame_levels.int()
    assert int(moved.abs().max()) == 1 and torch.equal(noisy.target_levels, batch.target_levels[: len(noisy.target_at)])


def test_training_step_reduces_the_loss_and_the_average_follows():
    torch.manual_seed(0)
    fitter = SpeakStreamTrainingModule(SpeakStream(SpeakStreamConfig(2, 32, 2, 64, 1)))
    batch = collate([cut(SpeakStreamOptions("S1", 3, 1))], ["slt"], 0.0, np.random.default_rng(0))
    copied = WorkingCopy(fitter)
    optim = torch.optim.AdamW(fitter.parameters(), lr=1e-2)
    first = last = 0.0
    for step in range(30):
        losses = copied.losses(batch, 0.5 * (step % 2), 0.5)
        total = losses["frame"] + losses["stop"] + losses["phone"]
        total.backward()
        copied.copy_gradients()
        optim.step()
        last = float(total.detach())
        first = first or last
        assert step < 29 or last < 0.7 * first
    copied.losses(batch, 0.0, 0.5)
    for master, copy in zip(fitter.parameters(), copied.copy.parameters(), strict=True):
        assert torch.equal(copy, master.to(training_dtype(torch.device("cpu"))))


def test_cpu_trains_in_bfloat16_if_it_is_fast(monkeypatch):
    found = {}
    for capability in ("DEFAULT", "AVX2", "AVX512"):
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda name=capability: name)
        found[capability] = WorkingCopy(
            SpeakStreamTrainingModule(SpeakStream(SpeakStreamConfig(1, 32, 2, 64, 1)))
        ).copy.net.symbol.weight.dtype
    assert found == {"DEFAULT": torch.float32, "AVX2": torch.float32, "AVX512": torch.bfloat16}
    assert training_dtype(torch.device("cuda")) == torch.bfloat16


def test_own_frames_replace_only_a_share_of_the_input():
    torch.manual_seed(0)
    fitter = SpeakStreamTrainingModule(SpeakStream(SpeakStreamConfig(2, 32, 2, 64, 1)))
    with torch.no_grad():  # a net that always predicts level 7
        fitter.net.levels_out.weight.zero_()
        fitter.net.levels_out.bias.view(-1, dmel.LEVELS)[:, 7] = 99.0
    batch = collate(
        [cut(SpeakStreamOptions("S1", 3, 1)), cut(SpeakStreamOptions("S2", 5, 2))],
        ["slt"],
        0.0,
        np.random.default_rng(0),
    )
    own = fitter.own_frames(batch, 1.0, 0.5)
    predicted = set((batch.target_at + 1).tolist())
    for at, was, now in zip(batch.frame_at.tolist(), batch.frame_levels, own.frame_levels, strict=True):
        assert (now == 7).all() if at in predicted else torch.equal(was, now)
    half = fitter.own_frames(batch, 0.5, 0.5).frame_levels
    assert 0.3 < float((half != batch.frame_levels).any(1).float().mean()) < 0.65
    assert torch.equal(own.target_levels, batch.target_levels)


def test_silence_prompt_is_the_median():
    noise = np.random.default_rng(0).integers(1, 4, (999, dmel.CHANNELS)).astype(np.uint8)
    assert (typical_silence([noise]) == 2).all()


def test_rate_warms_up_stays_and_decays(recipe):
    assert rate_share(0.0, recipe.fit) < 0.1 and rate_share(0.5, recipe.fit) == 1.0
    assert rate_share(1.0, recipe.fit) == 0.0 and 0 < rate_share(0.9, recipe.fit) < 1
