"""kill -9 while annotators mark, briefly; and a fault that is planted is found."""

import pytest

from studio.bench.robustness.annotation_kill import PLANT, AnnotationKillSetting, bench_annotation_kill
from studio.core.errors import BadOption


def test_five_kills_lose_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    out = bench_annotation_kill(AnnotationKillSetting(kills=5, life_s=(0.0, 0.3)))
    assert out["failures"] == []
    assert (out["kills"], out["annotators"]) == (5, 2)
    assert out["acknowledged"] >= 5 and out["sent_again"] > 0
    assert "5 times kill -9" in capsys.readouterr().out


def test_an_acknowledgement_before_the_write_is_found() -> None:
    out = bench_annotation_kill(AnnotationKillSetting(kills=8, life_s=(0.0, 0.01), plant=PLANT, quiet=True))
    assert any("on the disk" in failure for failure in out["failures"])


def test_mistakes_are_named() -> None:
    with pytest.raises(BadOption, match="no fault 'fire'"):
        bench_annotation_kill(AnnotationKillSetting(plant="fire"))
