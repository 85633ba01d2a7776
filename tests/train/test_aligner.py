"""Fitting a letter net to a voice's own speech, by the command, and the word times that it gives."""

import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from studio.bench.evaluation.word_times import time_differences
from studio.cli import cli
from studio.core.cards import read_card, sha256_of, write_card
from studio.core.errors import BadFile
from studio.core.files import read_lines
from studio.core.folders import TEXTS, VOICES
from studio.core.ports import SpeakRequest
from studio.core.speaking import speak_once
from studio.engine.engine import open_engine
from studio.engine.families.common.letter_net import FILE
from studio.measure.recognisers.pocketsphinx import align_all
from studio.text.normalise import best


@pytest.mark.slow
def test_words_of_linnet_begin_where_an_aligner_hears_them(tmp_path: Path) -> None:
    """By a net that is fitted here to other texts, by the command."""
    shutil.copytree(VOICES / "linnet", tmp_path / "linnet")
    shutil.copytree(VOICES / "wren", tmp_path / "wren")  # has the vocoder
    (tmp_path / "linnet" / FILE).unlink()
    card = read_card(tmp_path / "linnet")
    write_card(tmp_path / "linnet", replace(card, sha256={k: v for k, v in card.sha256.items() if k != FILE}))
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(read_lines(TEXTS / "eval.txt")[:48]), encoding="utf-8")
    command = ["train", "aligner", "--voice", "linnet:miles", "--voices", str(tmp_path), "--texts", str(texts)]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 0, result.output
    assert read_card(tmp_path / "linnet").sha256[FILE] == sha256_of(tmp_path / "linnet" / FILE)
    unseen = read_lines(TEXTS / "paragraphs.txt")[:1]
    with closing(open_engine(tmp_path, best(), voice_names=["linnet"])) as engine:
        traces = [speak_once(engine, SpeakRequest(voice="linnet:miles"), text) for text in unseen]
    away_ms: list[float] = []
    for trace in traces:
        words = trace.words()
        times = align_all([(trace.pcm, trace.rate_hz)], [" ".join(word.text for word in words)])[0]
        assert times is not None
        away_ms += [abs(ms) for kind, ms in time_differences(words, times, trace.rate_hz) if kind.startswith("start")]
    assert len(away_ms) > 50
    assert np.median(away_ms) <= 60.0


def test_too_few_words_are_refused_and_the_voice_is_as_before(tmp_path: Path) -> None:
    shutil.copytree(VOICES / "linnet", tmp_path / "linnet")
    shutil.copytree(VOICES / "wren", tmp_path / "wren")
    texts = tmp_path / "texts.txt"
    texts.write_text("one short text\n", encoding="utf-8")
    command = ["train", "aligner", "--voice", "linnet", "--voices", str(tmp_path), "--texts", str(texts)]
    result = CliRunner().invoke(cli, command)
    assert isinstance(result.exception, BadFile)
    assert "words could be aligned" in str(result.exception)
    assert read_card(tmp_path / "linnet") == read_card(VOICES / "linnet")
