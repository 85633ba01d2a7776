"""Error responses name no folders of the server."""

import errno
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from studio.core.errors import BadFile, Unavailable, unreadable
from studio.core.folders import without_folders
from studio.mos.store.problems import DamagedDatabase
from studio.serve.app import guarded_app
from studio.serve.settings import ServeSettings

LONG = f"there is no voice '/{300 * 'x'}/y'"  # no file system takes such a name


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("/usr/lib/x.wav is damaged; restore it", "x.wav is damaged; restore it"),
        ("'/tmp/a/b.trace': No such file", "'b.trace': No such file"),
        (
            "see https://example.org/usr/lib and /mos/owner/drafts",
            "see https://example.org/usr/lib and /mos/owner/drafts",
        ),
        ("1/2 of a/b/c, and/or /x", "1/2 of a/b/c, and/or /x"),
        (LONG, LONG),
    ],
)
def test_folders_are_left_out(message: str, said: str) -> None:
    assert without_folders(message) == said


@pytest.mark.parametrize(
    ("error", "status", "code", "part"),
    [
        (BadFile(f"{Path(__file__)} is damaged"), 404, "bad_file", "test_responses.py is damaged"),
        (OSError(errno.EIO, "failed", __file__), 503, "unavailable", "storage"),
        (OSError(errno.ENOSPC, "No space left", __file__), 503, "unavailable", "storage"),
        (DamagedDatabase("the database is damaged", "restore a backup"), 503, "damaged_database", "damaged"),
        (unreadable(OSError(errno.EIO, "Input/output error"), "the clip", ""), 503, "unavailable", "Input/output"),
    ],
)
def test_storage_errors_are_503(error: Exception, status: int, code: str, part: str) -> None:
    app = guarded_app(ServeSettings())

    @app.get("/fails")
    def fails() -> None:
        raise error

    with TestClient(app, base_url="http://127.0.0.1:7860") as client:
        answer = client.get("/fails")
    assert answer.status_code == status and answer.json()["code"] == code
    assert part in answer.json()["message"] and str(Path(__file__).parent) not in answer.text


@pytest.mark.parametrize(
    ("number", "kind"),
    [(errno.ENOENT, BadFile), (errno.EISDIR, BadFile), (errno.EIO, Unavailable), (errno.EACCES, Unavailable)],
)
def test_failing_storage_is_no_missing_file(number: int, kind: type[Exception]) -> None:
    assert type(unreadable(OSError(number, "why"), "what", "do")) is kind
