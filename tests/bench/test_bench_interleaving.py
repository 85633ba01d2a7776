"""`studio eval interleaving`: a tiny corpus' measures, and the figure drawn of them."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tinybpe import write_tiny_bpe
from typer.testing import CliRunner

from studio.bench.evaluation.interleaving import eval_interleaving, heat_maps
from studio.bench.evaluation.settings import InterleavingSetting
from studio.cli import cli
from studio.core.errors import BadFile
from studio.engine.families.ist.policy import PAPER_RATIOS


@pytest.fixture
def corpus(tmp_path):
    """One shard of one sentence of two words, six frames each, one more after them; and an encoding."""
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


def test_the_command_says_what_lacks_and_draws(corpus, tmp_path):
    features, bpe = corpus
    command = ["eval", "interleaving", "--features", str(features), "--bpe", str(bpe), "--json"]
    done = CliRunner().invoke(cli, [*command, "-o", str(tmp_path / "heat.html")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "heat.html").stat().st_size > 1e6, "it needs no network"
    with pytest.raises(BadFile, match="holds no features"):
        eval_interleaving(InterleavingSetting(features=tmp_path, bpe=bpe))
