"""Raters one a row: all that a lab has to look at, and who they are elsewhere nowhere."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
from mos.rated import NASTY
from mos.world import ACR, World

from studio.core.errors import BadOption
from studio.measure.tables import plain_text
from studio.mos.campaign.config import Gates, ScreeningQuestion
from studio.mos.import_export.export_raters import write_raters
from studio.mos.sessions.campaigns import find_campaign

SCREENING = [ScreeningQuestion("native", "Is English your first language?", ["yes", "no"], ["yes"])]
CONFIG = replace(ACR, gates=Gates(level=False, headphones="woods", screening=SCREENING, min_variance=0.1))


def test_a_lab_sees_screening_device_comments_and_gates(world: World, tmp_path: Path) -> None:
    world.campaign(CONFIG)
    good, foreign = world.join("PID-good").agree(), world.join("PID-foreign").agree()
    world.join("PID-visitor")
    world.join("PID-looker", role="preview").agree()
    foreign.send("screening", answers={"native": "no"})
    good.send("screening", answers={"native": "yes"})
    good.send("instructions")
    good.send("headphones", answers=good.headphones("woods", wrong=6))
    for _ in good.trials():
        pass
    good.send("comments", comment=NASTY)
    names = [good.row().pseudonym, foreign.row().pseudonym]

    def write(ending: str) -> Path:
        with world.store.read() as session:
            assert write_raters(session, find_campaign(session, "first"), tmp_path / f"raters.{ending}") == 2
        return tmp_path / f"raters.{ending}"

    whole = json.loads(write("json").read_text(encoding="utf-8"))
    one, other = whole["rows"]
    assert [c["name"] for c in whole["dictionary"]] == list(one) == list(other)
    assert [one["rater"], other["rater"]] == names
    told = {"screening_native": "yes", "device_screen": "1280x720", "comment": NASTY, "stage": "done", "answers": 4}
    gates = {"gate_headphones": "fail", "gate_variance": "fail", "gate_traps": "unknown", "headphone_tries": 1}
    for name, value in (told | gates | {"accept": "ok", "use": "fail", "consent_version": 3}).items():
        assert one[name] == value, name
    assert one["finished_at"] >= one["joined_at"]
    assert (other["screening_native"], other["stage"], other["finished_at"]) == ("no", "screened_out", None)
    text = write("csv").read_text(encoding="utf-8")
    with (tmp_path / "raters.csv").open(newline="", encoding="utf-8") as file:
        assert [plain_text(row["comment"]) for row in csv.DictReader(file)] == [NASTY, ""]
    assert "PID-" not in text + json.dumps(whole)
    with world.store.read() as session, pytest.raises(BadOption, match="no kind that is known"):
        write_raters(session, find_campaign(session, "first"), tmp_path / "raters.txt")
