"""A few simulated raters on the real routes, through the bench command."""

import json

import pytest
from mos.postgres import server

from studio.bench.mos.load import MosLoadSetting, bench_mos_load, show
from studio.bench.mos.site import AcknowledgedAnswer, audit, audit_site, copy_files, make_site
from studio.core.errors import BadOption
from studio.measure.report import plain
from studio.mos.service import open_listening_tests
from studio.mos.store.tables import AnswerCreate


def rate(site):
    """Add an answer to a site, and return its acknowledgement."""
    listening = open_listening_tests(site.url, site.folder)
    visitor = listening.access.visitor_of(listening.join("bench", site.key, "somebody", {}, {})["token"])
    rater = listening.consent(visitor, "consent", {"agreed": True, "version": 1}).result()
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
    return AcknowledgedAnswer(trial, "1-1", scores)


@pytest.fixture(scope="module")
def rated(tmp_path_factory):
    """A site with one answer, and the acknowledgement."""
    site = make_site(tmp_path_factory.mktemp("site"), items=2, systems=2, clip_s=0.1, trials=2, quota=5)
    return site, rate(site)


@pytest.mark.postgres
def test_answers_in_postgresql_are_audited(tmp_path):
    with server() as folder:
        url = f"postgresql+psycopg://studio@/postgres?host={folder}"
        site = make_site(tmp_path, items=2, systems=2, clip_s=0.1, trials=2, quota=5, url=url)
        told = rate(site)
        good = {"answers": 1, "lost": [], "doubled": [], "unacknowledged": [], "integrity": "ok"}
        assert audit_site(site, [told]) == good
        assert audit_site(site, [AcknowledgedAnswer("never", "1-1", told.scores)])["lost"] == ["never"]


@pytest.mark.parametrize("setting", [{"kills": 1}, {"kills": 1, "replicas": 1}, {"bare": True, "postgresql": True}])
def test_settings_that_exclude_each_other_are_refused(setting):
    with pytest.raises(BadOption):
        MosLoadSetting(**setting)


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
    show(out)
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
