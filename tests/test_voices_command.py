"""``studio voices`` prints any card safely."""

import json
from pathlib import Path

import pytest
from tinyvoice import write_tiny_voice
from typer.testing import CliRunner, Result

from studio.cli import cli
from studio.core.cards import find_file, read_cards, sha256_of
from studio.core.folders import VOICES
from studio.engine.families.base import family_info


def voices(*args: str) -> Result:
    return CliRunner().invoke(cli, ["voices", *args], catch_exceptions=False)


def test_list_and_the_bare_word_are_equal() -> None:
    assert voices().stdout == voices("list").stdout
    assert json.loads(voices("--json").stdout) == json.loads(voices("list", "--json").stdout)
    assert next(line.split(":")[0] for line in voices().stdout.splitlines()) == "wren"


@pytest.mark.parametrize("name", [path.parent.name for path in sorted(VOICES.glob("*/card.json"))])
def test_info_describes_a_shipped_voice(name: str) -> None:
    card = json.loads((VOICES / name / "card.json").read_text())
    said = voices("info", name).stdout
    assert all(speaker in said for speaker in card["speakers"]) and card["licence"] in said and card["family"] in said
    assert all(f"option {one['name']} " in said and one["label"] in said for one in card["options"])
    there = read_cards(VOICES)[name]
    found = {weights: find_file(there[1], there[0], weights) for weights in card["sha256"]}
    assert all(path is not None and sha256_of(path) == card["sha256"][weights] for weights, path in found.items())
    for weights, path in found.items():
        shared = "" if path.parent.name == name else f" (shared with {path.parent.name})"
        assert f"{weights} {path.stat().st_size / 1e6:.1f} MB{shared}" in said
    assert json.loads(voices("info", name, "--json").stdout) == card


def test_card_text_is_no_markup(tmp_path: Path) -> None:
    path = write_tiny_voice(tmp_path) / "card.json"
    path.write_text(
        json.dumps({**json.loads(path.read_text()), "licence": "[red]Free[/red] [link=file:///etc]x[/link]"})
    )
    assert "[red]Free[/red] [link=file:///etc]x[/link]" in voices("info", "--voices", str(tmp_path)).stdout


def test_range_of_an_option_is_shown_when_it_ends_at_zero(tmp_path: Path) -> None:
    path = write_tiny_voice(tmp_path) / "card.json"
    card = json.loads(path.read_text())
    card["options"][1] |= {"low": -3, "high": 0, "default": 0}
    path.write_text(json.dumps(card))
    assert "0 (-3 to 0): Look-ahead" in voices("info", "--voices", str(tmp_path)).stdout


def test_unsupported_feature_of_a_family_is_listed_once(tmp_path: Path) -> None:
    """A packed voice's card repeats it, and may list more."""
    path = write_tiny_voice(tmp_path, family="tacotron") / "card.json"
    card = json.loads(path.read_text())
    of_family = family_info("tacotron").notes
    for notes in ("", of_family, f"{of_family} Never learned from: ada.", "Never learned from: ada."):
        path.write_text(json.dumps({**card, "notes": notes}))
        assert voices("info", "--voices", str(tmp_path)).stdout.count("It speaks clause by clause") == 1
