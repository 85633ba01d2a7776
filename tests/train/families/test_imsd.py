"""Distillation with a fake teacher: worked losses, interleaving, the filter, restarts."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tinyfeatures import TINY_CONFIGS, tiny_recipe, tiny_sentence, write_tiny_features
from tinyvoice import write_tiny_voice
from typer.testing import CliRunner

from studio.cli import cli
from studio.core.errors import BadFile, BadOption
from studio.engine.engine import open_engine
from studio.engine.families.common.text_tokens import END, spell
from studio.engine.families.t5.model import T5, T5Config
from studio.engine.tokenizers import dmel
from studio.measure.recognisers.base import Sound
from studio.text.normalise import best
from studio.text.phonemes import pronounce
from studio.train.corpus.texts import CorpusText, write_texts
from studio.train.distillation import DistillationOptions, distil, is_exact
from studio.train.families.imsd_fit import DistillationCycle, DistillationTraining, cycles, hidden_loss, logit_loss
from studio.train.families.registry import training_for
from studio.train.families.s5_batches import WHOLE
from studio.train.features import Sentence, read_features, save_features
from studio.train.fit.dataset import SpeechDataset
from studio.train.fit.loop import run
from studio.train.fit.training import WorkingCopy, build_optimisers, train_step
from studio.train.recipes.fits import Distillation, S5Fit
from studio.train.recipes.recipe import Recipe, read_recipe

ROOT = Path(__file__).parents[3]
WORDS, TAUGHT = ["then", "the", "apple,", "tea."], ["so", "the", "other", "one."]


def sentence(speaker: str = "one", seed: int = 0, words: Sequence[str] = WORDS) -> Sentence:
    return tiny_sentence(speaker, seed, words)


def a_recipe(**changes) -> Recipe:
    plain = {"warmup_share": 0.0, "decay_share": 0.001, "join_share": 0.0, "noise_share": 0.0, "own_share": 0.0}
    plain |= {"crop_share": 0.0, "batch_tokens": 300, "steps": 3, "cross_weight": 0.0, "aux_weight": 0.0}
    return tiny_recipe("s5", **{**plain, "distill": Distillation(), **changes})


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[str, Path]:
    """The corpus, fake speech of the teacher, and random teacher weights."""
    root = tmp_path_factory.mktemp("imsd")
    write_tiny_features(root / "features", sentence)
    write_tiny_features(root / "taught", lambda speaker, seed: sentence(speaker, seed, TAUGHT))
    torch.manual_seed(3)
    teacher = T5(T5Config(**TINY_CONFIGS["t5"]))
    with torch.no_grad():
        teacher.levels_out.weight.normal_(std=0.2)
    save_file(teacher.state_dict(), root / "t5.safetensors")
    return {"features": root / "features", "taught": root / "taught", "teacher": root / "t5.safetensors"}


def a_fitting(made: dict[str, Path], **changes) -> DistillationTraining:
    fitting = training_for(a_recipe(**changes), made["teacher"], made["taught"])
    assert isinstance(fitting, DistillationTraining)
    return fitting


def the_cycles(made: dict[str, Path], number: int = 0, **changes) -> list[DistillationCycle]:
    text = SpeechDataset(made["features"], ["one", "two"], 1)
    return [*a_fitting(made, **changes).batches(text, number)]


def test_losses_equal_worked_values():
    hidden = hidden_loss(torch.tensor([[1.0, 2.0], [0.0, 4.0]]), torch.tensor([[0.0, 2.0], [0.0, 1.0]]))
    assert float(hidden) == pytest.approx((1 + 0 + 0 + 9) / 4)
    student, teacher = torch.tensor([[0.5, 0.5], [0.9, 0.1]]).log(), torch.tensor([[0.25, 0.75], [0.9, 0.1]]).log()
    by_hand = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    assert float(logit_loss(student + 3.0, teacher - 1.0)) == pytest.approx(by_hand / 2), "the second row agrees"
    other = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)
    assert float(logit_loss(teacher, student)) == pytest.approx(other / 2) != pytest.approx(by_hand / 2)


def test_total_has_the_papers_weights(made):
    fitter = a_fitting(made).module
    losses = {name: torch.tensor(value) for name, value in (("frame", 2.0), ("hidden", 0.1), ("logit", 0.5))}
    losses |= {"stop": torch.tensor(1.0), "cross": torch.tensor(7.0), "aux": torch.tensor(7.0)}
    assert float(fitter.total(losses)) == pytest.approx(10 * 0.1 + 1 * 0.5 + 2.0 + 0.3 * 1.0)


def test_sources_alternate_within_every_cycle(made):
    found = the_cycles(made, batch_tokens=80)
    assert len(found) == 3, "six sentences of the corpus, two per cycle"
    spoken = {
        name: [*[i for said in pronounce(words) for i in spell(said)], END]
        for name, words in (("corpus", WORDS), ("taught", TAUGHT))
    }
    for cycle in found:
        read = [one.teacher.symbols.tolist() for one in cycle.parts]
        assert read == [[spoken[name]] for name in ("corpus", "taught") * 2]
    for one, other in zip(found, the_cycles(made, batch_tokens=80), strict=True):
        assert all(torch.equal(a.student.fed, b.student.fed) for a, b in zip(one.parts, other.parts, strict=True))
    assert len(the_cycles(made, batch_tokens=80, distill=Distillation(mini_batches=2))) == 6


def test_teacher_gets_the_whole_text_and_the_same_frames(made):
    for cycle in the_cycles(made):
        for one in cycle.parts:
            mine, theirs = one.student, one.teacher
            assert theirs.k.tolist() == [WHOLE] * len(theirs.k) and set(mine.k.tolist()) <= {1, 2}
            assert torch.equal(mine.frames, theirs.frames) and torch.equal(mine.step_of, theirs.step_of)
            assert torch.equal(mine.predicts, theirs.predicts) and torch.equal(mine.fed, theirs.fed)


def test_metric_is_the_distance_to_the_teacher(made):
    fitting = a_fitting(made)
    cycle = the_cycles(made)[0]
    with torch.no_grad():
        losses = fitting.module(cycle)
        each = [fitting.module(DistillationCycle([one])) for one in cycle.parts]
    for name in ("hidden", "logit", "frame"):
        assert float(losses[name]) == pytest.approx(float(torch.stack([one[name] for one in each]).mean()), abs=1e-6)
    assert float(losses["hidden"]) > 0 and float(losses["logit"]) > 0
    names = [name for name, _ in fitting.module.named_parameters()]
    assert all(name.startswith("net.") for name in names) and "aligner" in "".join(names), "without the teacher"


def test_student_approaches_and_teacher_is_frozen(made):
    fitting = a_fitting(made)
    cycle = the_cycles(made)[0]
    (teacher,) = fitting.module._teacher
    before = {k: v.clone() for k, v in teacher.state_dict().items()}
    copied, optims = WorkingCopy(fitting.module), build_optimisers(fitting.module, fitting.settings)
    found = [train_step(copied, optims, cycle, fitting, 1.0, 0.0) for _ in range(20)]
    assert found[-1]["hidden"] < 0.8 * found[0]["hidden"]
    assert all(torch.equal(v, before[k]) for k, v in teacher.state_dict().items())


def test_stopped_run_resumes_to_the_same_weights(made, tmp_path):
    device = torch.device("cpu")
    whole = run(a_fitting(made, steps=4), made["features"], tmp_path / "whole", device, threads=1)
    run(a_fitting(made, steps=2), made["features"], tmp_path / "parts", device, threads=1)
    parts = run(a_fitting(made, steps=4), made["features"], tmp_path / "parts", device, threads=1)
    one, other = load_file(whole), load_file(parts)
    assert all(torch.equal(one[name], other[name]) for name in one)
    lines = [json.loads(line) for line in (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()]
    assert set(lines[-1]["validation"]) == {"k1", "k2"}


def test_mismatches_are_reported(made, tmp_path):
    with pytest.raises(BadOption, match="distils; give --teacher, --taught and --start"):
        training_for(a_recipe())
    with pytest.raises(BadOption, match="does not distil; leave out"):
        training_for(a_recipe(distill=None), made["teacher"], made["taught"])
    other = T5(T5Config(**{**TINY_CONFIGS["t5"], "width": 64}))
    save_file(other.state_dict(), tmp_path / "other.safetensors")
    for wrong in (tmp_path / "other.safetensors", tmp_path / "none.safetensors"):
        with pytest.raises(BadFile, match="is no T5-TTS with the sizes of 'small'"):
            training_for(a_recipe(), wrong, made["taught"])
    for number in (0, 3):
        with pytest.raises(BadOption, match=r"mini_batches cannot be .* an even number"):
            Distillation(mini_batches=number)
    (tmp_path / "empty").mkdir()
    for speaker in ("one", "two"):
        save_features(speaker, [], np.full((10, 80), 2, np.uint8), tmp_path / "empty" / f"{speaker}-000.safetensors")
    text, empty = (
        SpeechDataset(made["features"], ["one", "two"], 1),
        SpeechDataset(tmp_path / "empty", ["one", "two"], 0),
    )
    with pytest.raises(BadFile, match="no sentence that fits"):
        next(cycles(text, empty, a_recipe().fit, 1, 0, 2))
    with pytest.raises(BadFile, match="the corpus makes 2 mini-batches, and a step needs 3"):
        next(cycles(text, text, a_recipe().fit, 1, 0, 6))


def test_command_needs_initial_weights(made, tmp_path):
    asked = ["train", "fit", "--features", str(made["features"]), "--state", str(tmp_path), "--teacher", "x"]
    outcome = CliRunner().invoke(cli, [*asked, "--recipe", str(ROOT / "assets/recipes/s5-tiny-imsd.toml")])
    assert isinstance(outcome.exception, BadOption) and "give its weights with --start" in str(outcome.exception)


@pytest.mark.parametrize(
    ("heard", "kept"),
    [
        ("The rain has stopped", True),
        ("the rain has stopped.", True),
        ("the rain stopped", False),
        ("the rain has has stopped", False),
        ("the rail has stopped", False),
        ("", False),
    ],
)
def test_filter_keeps_sentences_without_word_errors(heard, kept):
    assert is_exact("The rain has stopped.", heard) is kept


def test_teacher_speech_is_filtered_and_written_as_features(tmp_path):
    voices, out = tmp_path / "voices", tmp_path / "taught"
    write_tiny_voice(voices, family="t5", eos_bias=0.0)
    texts = ["rain.", "tea.", "one.", "so."]
    asked: list[int] = []

    def hear(sounds: Sequence[Sound]) -> list[str]:
        """Mishears the second text of each speaker."""
        asked.append(len(sounds))
        own = texts[len(asked) - 1 :: 2]
        return [own[0], "something else"]

    engine = open_engine(voices, best(), device="cpu", threads=1)
    found = distil(engine, {"one": "a", "two": "b"}, texts, out, 4, DistillationOptions(transcribe=hear))
    assert (found.spoken, found.accepted) == (4, 2) and asked == [2, 2]
    for name, text in (("a", texts[0]), ("b", texts[1])):
        (path,) = out.glob(f"{name}-tiny-*.safetensors")
        (only,), silence = read_features(path)
        assert only.words == text.split() and only.speaker == name and len(silence) == dmel.SILENCE_FRAMES
        assert only.word_ends[-1] == len(only.levels) and sorted(set(only.word_ends)) == only.word_ends
    again = distil(engine, {"one": "a", "two": "b"}, texts, out, 4, DistillationOptions(transcribe=hear))
    assert (again.spoken, again.accepted) == (0, 0), "existing speech is not synthesised again"
    with pytest.raises(BadOption, match="knows no speaker 'two' of tiny"):
        distil(engine, {"one": "a"}, texts, out, 4, DistillationOptions(transcribe=hear))
    engine.close()


def test_unrecognised_speech_is_kept_and_independent_of_concurrency(tmp_path):
    voices = tmp_path / "voices"
    write_tiny_voice(voices, eos_bias=0.0)
    texts = ["rain.", "tea.", "one.", "so.", "then, the rain.", "the others.", "we go.", "and then."] * 2
    engine = open_engine(voices, best(), device="cpu", threads=1, slots=3)
    options = {"m": 2}
    for name, at_once in (("alone", 1), ("together", 3)):
        how = DistillationOptions(options=options, at_once=at_once)
        found = distil(engine, {"one": "a", "two": "b"}, texts, tmp_path / name, 4, how)
        assert found.spoken == 16 and found.accepted > 3, "some have a word without a frame"
    share = distil(
        engine, {"one": "a", "two": "b"}, texts, tmp_path / "share", 4, DistillationOptions(options=options), "tiny:two"
    )
    assert share.spoken == 8 and [p.name[:7] for p in (tmp_path / "share").iterdir()] == ["b-tiny-"]
    engine.close()
    for file in (tmp_path / "alone").iterdir():
        (one, _), (other, _) = (read_features(tmp_path / name / file.name) for name in ("alone", "together"))
        assert [s.words for s in one] == [s.words for s in other]
        assert all(np.array_equal(a.levels, b.levels) for a, b in zip(one, other, strict=True))


def test_command_speaks_a_share_of_a_corpus(tmp_path):
    write_tiny_voice(tmp_path / "voices")
    write_texts([CorpusText("prose", text) for text in ("rain.", "tea.", "one.", "so.")], tmp_path / "texts.jsonl")
    recipe = tmp_path / "recipe.toml"
    text = (ROOT / "assets/recipes/s5-tiny.toml").read_text()
    recipe.write_text(text.replace("af_heart", "one").replace("am_michael", "two"))
    asked = ["train", "taught", "--voices", str(tmp_path / "voices"), "--voice", "tiny", "--recipe", str(recipe)]
    asked += ["--texts", str(tmp_path / "texts.jsonl"), "--out", str(tmp_path / "out"), "--recogniser", "none"]
    outcome = CliRunner().invoke(cli, [*asked, "--after", "1", "--count", "2", "--option", "m=2"])
    assert outcome.exit_code == 0 and "of 2 texts accepted" in outcome.output, outcome.output
    spoken = {s.speaker: s.words for p in (tmp_path / "out").iterdir() for s in read_features(p)[0]}
    assert sorted(p.name[:9] for p in (tmp_path / "out").iterdir()) == ["one-tiny-", "two-tiny-"]
    assert spoken.items() <= {"one": ["tea."], "two": ["one."]}.items()


def test_recipe_equals_the_papers():
    recipe, before = (read_recipe(ROOT / f"assets/recipes/{name}.toml") for name in ("s5-tiny-imsd", "s5-tiny"))
    assert isinstance(recipe.fit, S5Fit) and isinstance(before.fit, S5Fit)
    assert recipe.fit.distill == Distillation(hidden_weight=10.0, logit_weight=1.0, mini_batches=4)
    assert recipe.fit.config == before.fit.config and recipe.corpus == before.corpus
    assert recipe.fit.steps / before.fit.steps == 100_000 / 250_000
    assert recipe.fit.peak_rate / before.fit.peak_rate == 1e-4 / 2e-4
