"""A server or command stopped by a signal closes its database: the file alone holds everything acknowledged."""

import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from durability.site import default_signals
from tinyvoice import write_tiny_voice

SIGNALS = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]

# A server with a request that never ends, and a store that acknowledged a row.
SERVER = """
import sys, time
from pathlib import Path
from studio.mos.service import open_listening_tests
from studio.mos.store.tables import Secret
from studio.serve.app import guarded_app
from studio.serve.server import run, bind_port
from studio.serve.settings import ServeSettings

settings = ServeSettings(port=0)
listening = open_listening_tests("", Path(sys.argv[1]))
app = guarded_app(settings)
bound = bind_port(settings)

@app.get("/stuck")
def stuck():
    with listening.store.read() as session:
        session.get(Secret, "row")
        print("stuck", flush=True)
        time.sleep(1000)

listening.store.write_now(lambda session: session.add(Secret(name="row", value="x")))
run(app, settings, bound, lambda: print(bound.getsockname()[1], flush=True), on_stopped=listening.close)
"""


def rows_of_a_copy(data: Path, to: Path) -> set[str]:
    """The secrets in a copy of the database file alone."""
    shutil.copy(data / "studio.sqlite", to)
    with closing(sqlite3.connect(to)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM secret")}


@contextmanager
def running(command: list[str], **streams: Any) -> Iterator[subprocess.Popen[str]]:
    """A process whose signals end it, also if tests run in the background; killed at the end of the block."""
    with subprocess.Popen(command, text=True, preexec_fn=default_signals, **streams) as process:  # noqa: PLW1509
        try:
            yield process
        finally:
            process.kill()


def line(stream: IO[str] | None, part: str) -> str:
    """The first line with a part; the process must not end before."""
    assert stream is not None
    for one in stream:
        if part in one:
            return one
    raise AssertionError(f"the process ended before it said {part!r}")


def test_hanging_request_does_not_keep_data_in_the_log(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SERVER, str(tmp_path / "data")]
    with running(command, stdout=subprocess.PIPE) as server:
        port = line(server.stdout, "").strip()
        get = f"import urllib.request as u; u.urlopen('http://127.0.0.1:{port}/stuck')"
        with running([sys.executable, "-c", get], stderr=subprocess.DEVNULL):
            line(server.stdout, "stuck")
            server.send_signal(signal.SIGTERM)
            server.wait(60)
    assert "row" in rows_of_a_copy(tmp_path / "data", tmp_path / "copy.sqlite")


@pytest.mark.parametrize("sent", SIGNALS)
def test_app_closes_its_database_before_it_ends(sent: signal.Signals, tmp_path: Path) -> None:
    write_tiny_voice(tmp_path / "voices")
    data = tmp_path / "data"
    options = ["--port", "0", "--no-demo", "--voices", str(tmp_path / "voices"), "--data", str(data)]
    command = [sys.executable, "-m", "studio", "app", *options]
    with running(command, stderr=subprocess.PIPE) as app:
        line(app.stderr, "Streaming-TTS Studio: http")
        app.send_signal(sent)
        app.wait(60)
        assert app.stderr is not None
        said = app.stderr.read()
    assert "Traceback" not in said
    assert app.returncode == (130 if sent is signal.SIGINT else -signal.SIGTERM)
    assert rows_of_a_copy(data, tmp_path / "copy.sqlite"), "the owner's token was acknowledged by being printed"
    assert not (data / "studio.sqlite-wal").exists()


# A command that is sent a signal in a callback, where Python ignores what the signal's handler raises.
CALLBACK = """
import signal, sys, time, weakref
import studio.cli
from studio.core.terminal import print_line

class Referent: pass

def command():
    one = Referent()
    reference = weakref.ref(one, lambda _: signal.raise_signal(int(sys.argv[1])))
    del one
    print_line("goes on")
    try:
        time.sleep(90)
    except KeyboardInterrupt:
        sys.exit(130)

studio.cli.cli = command
studio.cli.main()
"""


@pytest.mark.parametrize("number", SIGNALS)
def test_signal_in_a_callback_ends_the_command(number: signal.Signals) -> None:
    with running([sys.executable, "-c", CALLBACK, str(int(number))], stdout=-1, stderr=-1) as command:
        said, errors = command.communicate(timeout=200)
    assert (said, errors) == ("goes on\n", "")  # asleep when the signal comes again
    assert command.returncode == (130 if number == signal.SIGINT else -signal.SIGTERM)
