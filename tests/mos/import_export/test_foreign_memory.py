"""A foreign database of hundreds of megabytes is read or refused with bounded memory."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from mos.world import ACR, World

from studio.mos.store.database import Store

MAX_KIB = 300 * 1024
# Not ``ru_maxrss``, in which a process inherits the peak of the one that started it.
_PEAK = """
import re, sys
from pathlib import Path
from studio.core.errors import BadFile
from studio.mos.import_export.merge import merge_from
from studio.mos.service import open_listening_tests

def peak_kib():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

listening = open_listening_tests("", Path(sys.argv[1]))
before = peak_kib()
try:
    print(len(merge_from(listening, sys.argv[2], dry=True)), "read")
except BadFile as error:
    print(error)
listening.close()
print(peak_kib() - before)
"""


def numbers(count: int) -> str:
    return f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"


_STROKE = '{"at_ms": 1.0, "at": 0, "remove": 0, "insert": "' + "a" * 1900 + '"}'
_CASES = {
    "passages": (
        f"{numbers(5000)} INSERT INTO passage (rater_id, stage, verdict, at, data) SELECT (SELECT min(id) FROM rater), "
        "'consent', 'ok', i, '{\"a\": \"' || printf('%.*c', 65000, 'x') || '\"}' FROM n",
        "1 read",
    ),
    "takes": (
        f"{numbers(170)} INSERT INTO take SELECT (SELECT min(id) FROM trial), 0, i, 1.0, '{{\"strokes\": [' || "
        f"replace(printf('%.*c', 900, 'x'), 'x', '{_STROKE}, ') || '{_STROKE}], \"end_ms\": 1.0}}', '{'0' * 64}', "
        "16000, 5, 1.0, 0.0, '' FROM n",
        "1 read",
    ),
    "campaigns": (
        f"{numbers(160)} INSERT INTO campaign (id, name, kind, state, seed, config, created_at) SELECT 1 + i, 'c' || i,"
        " kind, state, seed, substr(config, 1, length(config) - 1) || printf('%.*c', 1900000, ' ') || '}', created_at "
        "FROM campaign, n WHERE id = 1",
        "161 read",
    ),
    "one cell": (
        "UPDATE answer SET comment = CAST(zeroblob(400000000) AS TEXT) WHERE id = 1",
        "the other database cannot be read whole",
    ),
    "one definition": (f"CREATE TABLE wide (a /*{'x' * 300_000_000}*/)", "cannot be read: string or blob too big"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", _CASES)
def test_a_large_foreign_database_takes_bounded_memory(tmp_path: Path, what: str) -> None:
    statement, answer = _CASES[what]
    file = tmp_path / "other" / "studio.sqlite"
    file.parent.mkdir()
    other = World(Store(f"sqlite:///{file}"), file.parent / "clips")
    other.campaign(ACR)
    rater_session = other.join("P1")
    rater_session.to_trials()
    rater_session.finish(4)
    other.listening.close()
    connection = sqlite3.connect(file)
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute(statement)
    connection.commit()
    connection.close()
    assert file.stat().st_size > 280_000_000
    command = [sys.executable, "-c", _PEAK, tmp_path / "ours", file]
    said, kib = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    file.unlink()
    assert answer in said and int(kib) < MAX_KIB, (said, kib)
    print(what, kib)
