"""kill -9 while raters answer and annotators mark, briefly; every planted fault is found."""

import shutil

import pytest
from durability.harness.annotation_kill import PLANT, AnnotationKillSetting, bench_annotation_kill
from durability.harness.mos_kill import MosKillSetting, SyncCounts, bench_mos_kill, count_synced
from needs import needs
from typer.testing import CliRunner

from studio.bench import durability
from studio.bench.durability import run_harness
from studio.cli import cli
from studio.core.errors import BadOption, NeedsPackage

BRIEF = {"raters": 6, "think_s": (0.02, 0.1), "quiet": True}


def test_four_kills_lose_nothing(capsys):
    out = bench_mos_kill(MosKillSetting(**BRIEF, kills=4, life_s=(0.0, 0.4), traced_s=0.0))
    assert out["failures"] == []
    assert (out["kills"], out["copies"], out["lost"], out["doubled"], out["integrity"]) == (4, 4, 0, 0, "ok")
    assert out["acknowledged"] >= 4
    durability.show_mos_kill(out)
    assert "4 times kill -9 under 6 raters" in capsys.readouterr().out


def test_acknowledgement_before_the_commit_is_found():
    """Each process ends right after an acknowledgement, which the fault sends 50 ms early."""
    setting = MosKillSetting(**BRIEF, kills=4, life_s=(0.0, 0.01), traced_s=0.0, plant="acknowledge-before-commit")
    out = bench_mos_kill(setting)
    assert out["lost"] > 0
    assert any("answers lost" in failure for failure in out["failures"])


def test_strace_finds_every_sync():
    needs(shutil.which("strace"), "strace (apt-get install strace)")
    out = bench_mos_kill(MosKillSetting(**BRIEF, kills=0, traced_s=0.5))
    assert out["failures"] == []
    assert out["strace"]["answers"] == out["strace"]["synced"] > 0


def test_strace_finds_missing_syncs():
    needs(shutil.which("strace"), "strace (apt-get install strace)")
    out = bench_mos_kill(MosKillSetting(**BRIEF, kills=0, traced_s=0.5, plant="synchronous-off"))
    assert out["strace"]["answers"] > out["strace"]["synced"] == 0
    assert "did not wait for a sync" in out["failures"][0]


def test_bad_arguments_are_named():
    with pytest.raises(BadOption, match="no fault 'fire'"):
        bench_mos_kill(MosKillSetting(plant="fire"))
    with pytest.raises(BadOption, match="no fault 'fire'"):
        run_harness(AnnotationKillSetting(plant="fire"))
    refused = CliRunner().invoke(cli, ["bench", "mos-kill", "--plant", "synchronous-off", "--save"])
    assert isinstance(refused.exception, BadOption)


def test_installed_package_names_the_checkout(tmp_path, monkeypatch):
    monkeypatch.setattr(durability, "__file__", str(tmp_path / "site" / "studio" / "bench" / "durability.py"))
    with pytest.raises(NeedsPackage, match="run it in a checkout"):
        run_harness(AnnotationKillSetting(plant="fire"))


POST = '7 recvfrom(9<socket:[1]>, "POST /mos/answer HTTP/1.1\\r\\n"..., 262144, 0, NULL, NULL) = 500'

WRITE = '8 pwrite64(5</x/studio.sqlite-wal>, "\\0"..., 4096, 32) = 4096'

SYNC = "8 fdatasync(5</x/studio.sqlite-wal>) = 0"

ENTER, LEAVE = "8 fdatasync(5</x/studio.sqlite-wal> <unfinished ...>", "8 <... fdatasync resumed>) = 0"

SEND = '7 sendto(9<socket:[1]>, "HTTP/1.1 200 OK\\r\\n"..., 200, 0, NULL, 0) = 200'


@pytest.mark.parametrize(
    ("lines", "synced"),
    [
        ([POST, WRITE, SYNC, SEND], 1),
        ([POST, WRITE, ENTER, LEAVE, SEND], 1),
        ([WRITE, POST, WRITE, SYNC, SEND, SEND], 1),
        ([POST, WRITE, SEND, SYNC], 0),
        ([POST, SYNC, SEND], 0),  # of earlier writes
        ([POST, SYNC, WRITE, SEND], 0),
        ([WRITE, ENTER, POST, LEAVE, SEND], 0),
        ([ENTER, POST, WRITE, LEAVE, SEND], 0),  # it was entered too early
        ([POST, WRITE, ENTER, SEND, LEAVE], 0),  # and does not return here
        ([POST, WRITE, SYNC.replace("= 0", "= -1 EIO"), SEND], 0),
        ([POST, WRITE, SYNC.replace("-wal", ""), SEND], 0),
    ],
)
def test_straces_are_read_in_order(lines: list[str], synced: int):
    assert count_synced(lines) == SyncCounts(answers=1, synced=synced)


def test_five_kills_lose_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    out = bench_annotation_kill(AnnotationKillSetting(kills=5, life_s=(0.0, 0.3)))
    assert out["failures"] == []
    assert (out["kills"], out["annotators"]) == (5, 2)
    assert out["acknowledged"] >= 5 and out["sent_again"] > 0
    durability.show_annotation_kill(out)
    assert "5 times kill -9" in capsys.readouterr().out


def test_acknowledgement_before_the_write_is_found() -> None:
    out = bench_annotation_kill(AnnotationKillSetting(kills=8, life_s=(0.0, 0.01), plant=PLANT, quiet=True))
    assert any("on the disk" in failure for failure in out["failures"])
