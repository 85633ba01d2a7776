"""Settings as a file: what is written is read back as the same, whatever a lab has typed."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from studio.mos.campaign.config import Completion, Question, Screen, StopRule, WayOut, from_json
from studio.mos.campaign.settings_file import to_toml
from studio.mos.campaign.templates import template, template_names, with_settings

NASTY = 'say "no"\\\n\n\'\'\' """ = [gates]\ttab 日本語 \\u0041'


@pytest.mark.parametrize("name", template_names())
def test_a_template_comes_back_whole(name: str, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(to_toml(template(name)), encoding="utf-8")
    assert with_settings(name, tmp_path / "own.toml") == template(name)


def test_what_was_typed_comes_back_whole(tmp_path: Path) -> None:
    """On any template: the file says all, and nothing of the template's is left."""
    config = template("incremental-mos")
    gates = replace(config.gates, screening=[Screen("native", NASTY, ["Ja", 'a "b"'], ["Ja"])], min_variance=0.25)
    mine = replace(
        config,
        questions=[Question("wärme", NASTY, -2, 2, {"-2": "kalt", "2": NASTY})],
        gates=gates,
        texts=replace(config.texts, title=NASTY, consent=NASTY, language="de"),
        completion=Completion(code="C1", full=WayOut(code="F", redirect_url="https://panel.example/full")),
        stop=StopRule(half_width=0.15, decided=True, looks=[10, 30], spending="pocock"),
    )
    (tmp_path / "mine.toml").write_text(to_toml(mine), encoding="utf-8")
    assert from_json(tomllib.loads(to_toml(mine))) == mine
    assert with_settings("speakstream-mos", tmp_path / "mine.toml") == mine
