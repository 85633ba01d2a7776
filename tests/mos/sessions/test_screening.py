"""Screening questions: a choice, a line of text, or a number within limits."""

from dataclasses import replace
from typing import Any

import pytest
from mos.world import ACR, SQLITE_ONLY, World

from studio.core.errors import BadMessage, BadOption
from studio.mos.campaign.config import Gates
from studio.mos.campaign.gates import ScreeningQuestion
from studio.mos.import_export.rater_export import rater_rows

AGE = ScreeningQuestion("age", "How old are you?", answer="number", low=18, high=99)
JOB = ScreeningQuestion("job", "What is your work?", answer="text", optional=True)
NATIVE = ScreeningQuestion("native", "English?", ["yes", "no"], ["yes"])


@pytest.mark.parametrize(
    ("question", "sent", "value"),
    [
        (AGE, "30", 30),
        (AGE, 30, 30),
        (AGE, " 30,5 ", 30.5),
        (AGE, "17", None),
        (AGE, "1e999", None),
        (AGE, "nan", None),
        (AGE, "", None),
        (AGE, True, None),
        (AGE, "old", None),
        (JOB, "", ""),
        (JOB, None, ""),
        (JOB, " cook ", "cook"),
        (JOB, "x" * 5000, "x" * 1000),
        (replace(JOB, optional=False), " ", None),
        (NATIVE, "yes", "yes"),
        (NATIVE, "maybe", None),
        (NATIVE, ["yes"], None),
    ],
)
def test_answers_are_read_by_their_kind(question: ScreeningQuestion, sent: Any, value: Any) -> None:
    assert question.read(sent) == value


def test_limits_rise() -> None:
    with pytest.raises(BadOption, match="low above high"):
        ScreeningQuestion("age", "", answer="number", low=9, high=1)


@SQLITE_ONLY
def test_free_text_and_numbers_are_asked_and_exported(world: World) -> None:
    world.campaign(replace(ACR, gates=Gates(level=False, screening=[NATIVE, AGE, JOB])))
    rater = world.join("one")
    rater.agree()
    shown = rater.next()
    assert [(q["id"], q["answer"], q["optional"]) for q in shown["questions"]] == [
        ("native", "choice", False),
        ("age", "number", False),
        ("job", "text", True),
    ]
    assert "accept" not in shown["questions"][0]
    with pytest.raises(BadMessage, match="'age' is not answered"):
        rater.send("screening", answers={"native": "yes", "age": "12"})
    assert rater.send("screening", answers={"native": "yes", "age": "41", "job": "=cook"})["stage"] == "instructions"
    [row] = world.read(lambda session, campaign: list(rater_rows(session, campaign)))
    assert [row[f"screening_{name}"] for name in ("native", "age", "job")] == ["yes", "41", "=cook"]
