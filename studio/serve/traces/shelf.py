"""The shelf of traces: each spoken utterance is kept for a while under a name that cannot be guessed."""

import errno
import itertools
import logging
import os
import re
import secrets
import shutil
import tempfile
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from studio.core.clips import WAV_HEADER_BYTES, wav_bytes
from studio.core.errors import BadFile, BadOption, NotStored
from studio.core.folders import DEFAULT_TRACES, expanded
from studio.core.traces.trace import Trace, open_trace
from studio.core.traces.trace_reader import read_audio
from studio.core.traces.trace_writer import TraceWriter

_TOKEN = re.compile(r"[A-Za-z0-9_-]{22}")
_ORPHAN_S = 86_400.0  # a folder that a crash left is kept for a day

log = logging.getLogger("studio.serve")


class TraceShelf:
    """Keeps at most ``max_traces`` traces, and no more than ``max_bytes``, in one folder.

    Where one must go, it is the oldest without sound; where all have sound, the oldest of the owner who has the most:
    nobody pushes out what others made. The newest one stays, and one without sound pushes out none that has it. Which
    are the oldest, is known by the order in which they came, not by the time of day: somebody may set the clock.

    Args:
        folder: made for its owner alone, since traces hold what users typed.
    """

    def __init__(self, folder: Path, max_traces: int, max_bytes: int) -> None:
        self.folder = _made(folder)
        self.max_traces, self.max_bytes = max_traces, max_bytes
        self._lock = threading.Lock()
        self._writing: set[str] = set()
        self._owners: dict[str, str] = {}  # by token; of what was there before this server began nobody is known
        self._came: dict[str, int] = {}  # tokens of what is there, the higher the later
        self._silent: dict[str, bool] = {}  # by token: whether it has no sound
        self._numbers = itertools.count()
        self._prune()

    def begin(self, meta: Mapping[str, Any], owner: str = "") -> tuple[str, TraceWriter]:
        """A new trace's token and its writer; ``owner`` is whose share of the shelf it is, a network address."""
        token = secrets.token_urlsafe(16)
        self._writing.add(token)
        self._owners[token] = owner
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

    def put(self, trace: Trace, owner: str = "") -> str:
        """Keep a trace that is whole, and make room for it; answers its token. Raises NotStored."""
        token, writer = self.begin(trace.meta, owner)
        try:
            writer.write(*trace.events)
            writer.close(trace.layers)
        except OSError as error:
            writer.drop()
            raise NotStored("the trace could not be written", "the server's owner looks at its disk") from error
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
        return BadFile("there is no such trace", f"at most {self.max_traces} are kept, the newest")

    def _prune(self) -> None:
        with self._lock:
            there = self._oldest_first()
            while (gone := self._to_go(there)) is not None:
                (self.folder / f"{gone}.trace").unlink(missing_ok=True)
                del there[gone]
            for known in (self._owners, self._silent, self._came):
                for token in known.keys() - there.keys() - self._writing:
                    known.pop(token, None)
            for orphan in self.folder.iterdir():
                if not _TOKEN.fullmatch(orphan.name) or orphan.name in self._writing or not orphan.is_dir():
                    continue
                changed_s = max(_changed_and_size(one)[0] for one in (orphan, orphan / "events.jsonl"))
                if changed_s < time.time() - _ORPHAN_S:
                    shutil.rmtree(orphan, ignore_errors=True)
                    log.warning("removed a trace that a crash had left unfinished")

    def _to_go(self, there: Mapping[str, int]) -> str | None:
        """Which one goes next, of tokens and bytes, the oldest first; None where all may stay."""
        is_too_large = sum(there.values()) > self.max_bytes
        if len(there) < 2 or (len(there) <= self.max_traces and not is_too_large):
            return None
        *older, newest = there
        if silent := next((token for token in older if self._silent[token]), None):
            return silent
        if self._silent[newest]:
            return None
        share: Counter[str] = Counter()
        for token, size in there.items():
            share[self._owners.get(token, "")] += size if is_too_large else 1
        return max(older, key=lambda token: share[self._owners.get(token, "")])

    def _oldest_first(self) -> dict[str, int]:
        """Every trace's token and bytes. What was there before this server began, or comes from another one, is put in
        order by its time among its like, as soon as it is seen."""
        found = {path.stem: _changed_and_size(path) for path in self.folder.glob("*.trace")}
        for token in sorted(found.keys() - self._came.keys(), key=lambda token: found[token][0]):
            self._came[token] = next(self._numbers)
            self._silent[token] = _is_silent(self.folder / f"{token}.trace")
        return {token: found[token][1] for token in sorted(found, key=self._came.__getitem__)}


def _made(folder: Path) -> Path:
    """The traces folder, made if it is missing; a new temporary folder where the default one cannot be used.

    Raises:
        BadFile: a folder that is not the default cannot be used.
        BadOption: the same, because no home folder is known.
    """
    try:
        path = expanded(folder, "set traces_folder to an absolute path, or set HOME")
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    except (BadOption, OSError) as error:
        if folder == DEFAULT_TRACES:  # in a container, traces need not outlive the server
            path = Path(tempfile.mkdtemp(prefix="studio-traces-"))
            log.warning("%s; traces are kept in %s", error, path)
        elif isinstance(error, OSError):
            what = f"the traces folder {folder} cannot be used: {error}"
            raise BadFile(what, "set traces_folder to a folder that can be written") from error
        else:
            raise
    return path


def _is_silent(path: Path) -> bool:
    """Whether a trace holds no sample; what is no trace is not looked into."""
    try:
        with zipfile.ZipFile(path) as trace:
            return trace.getinfo("audio.wav").file_size <= WAV_HEADER_BYTES
    except (OSError, KeyError, zipfile.BadZipFile):
        return False


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
