"""A few simulated raters on the real routes, through the bench command."""

import json

import pytest

from studio.bench.mos.load import MosLoadSetting, bench_mos_load
from studio.bench.mos.site import AcknowledgedAnswer, audit, copy_files, make_site
from studio.measure.report import plain
from studio.mos.service import open_listening_tests
from studio.mos.store.tables import AnswerCreate


@pytest.fixture(scope="module")
def rated(tmp_path_factory):
    """A site with one answer, and the acknowledgement."""
    site = make_site(tmp_path_factory.mktemp("site"), items=2, systems=2, clip_s=0.1, trials=2, quota=5)
    listening = open_listening_tests("", site.folder)
    visitor = listening.access.visitor_of(listening.join("bench", site.key, "somebody", {}, {})["token"])
    agreed = listening.consent(visitor, "consent", {"agreed": True, "version": 1}).result()
    rater = listening.access.rater_of(agreed["token"])
    for stage in ("instructions", "level"):
        listening.stage(rater, stage, {}).result()
    trial = listening.next(rater).result()["trial"]["trial"]
    scores = {"naturalness": 2, "coherence": 5}
    answer = AnswerCreate(
        trial=trial,
        scores=[{"question": q, "slot": 0, "value": v} for q, v in scores.items()],
        plays=[{"slot": 0, "plays": 1, "heard_ms": 100}],
        comment="1-1",
    )
    listening.answer(rater, answer).result()
    listening.close()
    return site, AcknowledgedAnswer(trial, "1-1", scores)


def test_dozen_raters_lose_nothing(capsys):
    out = bench_mos_load(
        MosLoadSetting(raters=12, trials=3, think_s=(0.05, 0.2), items=4, systems=2, clip_s=1.5, bare=True)
    )
    assert out["failures"] == []
    assert (out["acknowledged"], out["answers"], out["lost"], out["doubled"], out["unacknowledged"]) == (
        36,
        36,
        0,
        0,
        0,
    )
    assert out["answer_ms"]["n"] == 36 and out["clip_ms"]["n"] == 72  # two ranges of each clip
    assert out["answer_ms"]["p50"] <= out["answer_ms"]["p95"] <= out["answer_ms"]["p99"]
    assert (out["settings"]["journal_mode"], out["settings"]["synchronous"]) == ("wal", "2")
    json.dumps(plain(out), allow_nan=False)
    assert "12 raters x 3 trials" in capsys.readouterr().out


def test_audit_detects_errors(rated, tmp_path):
    site, told = rated
    good = {"answers": 1, "lost": [], "doubled": [], "unacknowledged": [], "integrity": "ok"}
    assert audit(copy_files(site.file, tmp_path / "a"), [told]) == good
    assert audit(site.file, [])["unacknowledged"] == [told.trial]
    for other in (
        AcknowledgedAnswer("never", told.comment, told.scores),
        AcknowledgedAnswer(told.trial, "1-2", told.scores),
        AcknowledgedAnswer(told.trial, told.comment, {**told.scores, "coherence": 4}),
    ):
        assert audit(site.file, [told, other])["lost"] == [other.trial]


def test_audit_detects_a_damaged_file(rated, tmp_path):
    site, told = rated
    copy = copy_files(site.file, tmp_path / "b")
    data = bytearray(copy.read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    copy.write_bytes(data)
    seen = audit(copy, [told])
    assert seen["integrity"] != "ok"
    assert seen["lost"] == [told.trial]
