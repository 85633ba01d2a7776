"""Figures of cards: those of bench/results, measured with the card's weights and defaults."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from studio.bench.card_figures import card_figures, write_card_figures
from studio.core.cards import read_cards, write_card
from studio.core.errors import BadFile
from studio.core.folders import VOICES

RESULTS = Path(__file__).parents[2] / "bench" / "results"
CARDS = {name: card for name, (card, _) in read_cards(VOICES).items()}


@pytest.mark.parametrize("name", CARDS)
def test_shipped_cards_have_the_measured_figures(name: str) -> None:
    assert CARDS[name].figures == card_figures(CARDS[name], RESULTS), "run `studio bench card-figures`"
    assert CARDS[name].about


def test_figures_are_of_the_default_options_and_the_newest_file(tmp_path: Path) -> None:
    card = CARDS["wren"]
    head = {"hardware": {"cpu": "a", "cores": 1}, "sha256": card.sha256}
    for day, late_ms in (("2026-01-01", 5.0), ("2026-01-02", 7.0)):
        figures = {"name": "latency", "date": day, "setting": "", "t2_t0_ms": {"p50": late_ms}, **head}
        (tmp_path / f"latency-{day}.json").write_text(json.dumps(figures))
    for name, value in (("quality", 4.0), ("wer", 0.03)):
        speakers = {who: {"n": 2, "m=3": {"value": value}, "m=1": {"value": 0.5}} for who in ("a", "b")}
        figures = {"name": name, "date": "2026-01-02", "speakers": speakers, **head}
        (tmp_path / f"{name}-2026-01-02.json").write_text(json.dumps(figures))
    found = card_figures(card, tmp_path)
    assert (found["first_sound_ms"], found["predicted_mos"], found["word_error_rate"]) == (7.0, 4.0, 0.03)
    assert found["measured"]["first_sound_ms"] == {"file": "latency-2026-01-02.json", "cpu": "a", "cores": 1}
    with pytest.raises(BadFile, match="no first_sound_ms and no predicted_mos and no word_error_rate of wren"):
        card_figures(replace(card, sha256={"other.safetensors": "0" * 64}), tmp_path)
    voices = tmp_path / "voices" / "wren"
    voices.mkdir(parents=True)
    write_card(voices, card)
    assert write_card_figures(tmp_path / "voices", tmp_path) == [voices / "card.json"]
    assert read_cards(tmp_path / "voices")["wren"][0].figures == found
