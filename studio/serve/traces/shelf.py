"""The shelf of traces: each spoken utterance is kept for a while under a name that cannot be guessed."""

import itertools
import logging
import re
import secrets
import shutil
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from studio.core.clips import wav_bytes
from studio.core.errors import BadFile
from studio.core.traces.trace import Trace, TraceWriter, open_trace
from studio.core.traces.tracefile import read_audio
from studio.library.annotations import NotKept

_TOKEN = re.compile(r"[A-Za-z0-9_-]{22}")
_ORPHAN_S = 86_400.0  # a folder that a crash left is kept for a day

log = logging.getLogger("studio.serve")


class TraceShelf:
    """Keeps the newest ``max_traces`` traces, and no more than ``max_bytes``, in one folder.

    Which are the newest, is known by the order in which they came, not by the time of day: somebody may set the clock.

    Args:
        folder: made for its owner alone, since traces hold what users typed.
    """

    def __init__(self, folder: Path, max_traces: int, max_bytes: int) -> None:
        self.folder = folder.expanduser()
        self.max_traces, self.max_bytes = max_traces, max_bytes
        self._lock = threading.Lock()
        self._writing: set[str] = set()
        self._came: dict[str, int] = {}  # tokens of what is there, the higher the later
        self._numbers = itertools.count()
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise BadFile(
                f"the traces folder {folder} cannot be made: {error}", "set traces_folder elsewhere"
            ) from error
        self._prune()

    def begin(self, meta: Mapping[str, Any]) -> tuple[str, TraceWriter]:
        """A new trace's token and its writer."""
        token = secrets.token_urlsafe(16)
        self._writing.add(token)
        return token, TraceWriter(self.folder / token, meta)

    def finish(self, writer: TraceWriter) -> None:
        """Close a trace into its zip and make room for it. Raises OSError where that cannot be; then none is kept."""
        try:
            writer.close()
        except OSError:
            writer.drop()
            raise
        finally:
            self._writing.discard(writer.folder.name)
        self._prune()

    def put(self, trace: Trace) -> str:
        """Keep a trace that is whole, and make room for it; answers its token. Raises NotKept where that cannot be."""
        token, writer = self.begin(trace.meta)
        try:
            writer.write(*trace.events)
            writer.close(trace.layers)
        except OSError as error:
            writer.drop()
            raise NotKept("the trace could not be written", "the server's owner looks at its disk") from error
        finally:
            self._writing.discard(token)
        self._prune()
        return token

    def drop(self, writer: TraceWriter) -> None:
        """Keep nothing of a trace."""
        writer.drop()
        self._writing.discard(writer.folder.name)

    def path(self, token: str) -> Path:
        """The trace of a token. Raises BadFile when there is none (any more)."""
        path = self.folder / f"{token}.trace"
        if not _TOKEN.fullmatch(token) or not path.is_file():
            raise self._none()
        return path

    def read(self, token: str) -> bytes:
        """A trace's bytes. Raises BadFile when there is none (any more)."""
        try:
            return self.path(token).read_bytes()
        except FileNotFoundError as error:  # room was made for a newer one just now
            raise self._none() from error

    def take(self, token: str) -> bytes:
        """A trace's bytes, which are no longer kept here. Raises BadFile when there is none."""
        content = self.read(token)
        self.path(token).unlink()
        return content

    def wav(self, token: str, *, as_heard: bool) -> bytes:
        """A trace's audio as a WAV file; ``as_heard`` puts the waits back as silence."""
        if not as_heard:
            return read_audio(self.path(token))
        trace = open_trace(self.path(token))
        return wav_bytes(trace.as_heard(), trace.rate_hz)

    def _none(self) -> BadFile:
        return BadFile("there is no such trace", f"the newest {self.max_traces} are kept")

    def _prune(self) -> None:
        with self._lock:
            kept_bytes = 0
            for place, (path, size) in enumerate(self._newest_first()):
                kept_bytes += size
                if place and (place >= self.max_traces or kept_bytes > self.max_bytes):
                    path.unlink(missing_ok=True)
            for orphan in self.folder.iterdir():
                if not _TOKEN.fullmatch(orphan.name) or orphan.name in self._writing or not orphan.is_dir():
                    continue
                changed_s = max(_changed_and_size(one)[0] for one in (orphan, orphan / "events.jsonl"))
                if changed_s < time.time() - _ORPHAN_S:
                    shutil.rmtree(orphan, ignore_errors=True)
                    log.warning("removed a trace that a crash had left unfinished")

    def _newest_first(self) -> list[tuple[Path, int]]:
        """Every trace and its bytes. What was there before this server began, or comes from another one, is put in
        order by its time among its like, as soon as it is seen."""
        found = {path.stem: (path, *_changed_and_size(path)) for path in self.folder.glob("*.trace")}
        self._came = {token: number for token, number in self._came.items() if token in found}
        for token in sorted(found.keys() - self._came.keys(), key=lambda token: found[token][1]):
            self._came[token] = next(self._numbers)
        newest_first = sorted(found, key=self._came.__getitem__, reverse=True)
        return [(found[token][0], found[token][2]) for token in newest_first]


def _changed_and_size(path: Path) -> tuple[float, int]:
    """The time of the last change, and bytes; a file that another server has just removed is old and empty."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return 0.0, 0
    return stat.st_mtime, stat.st_size


def download_name(token: str, suffix: str) -> str:
    """What a browser should call the file."""
    return f"utterance-{token[:8].strip('-_')}{suffix}"
