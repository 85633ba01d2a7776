"""The trace store: finished utterances on disk, and the recorder that writes one while it is spoken."""

import asyncio
import contextlib
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
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from studio.core import events as ev
from studio.core.clips import WAV_HEADER_BYTES
from studio.core.errors import BadFile, BadOption, NotStored
from studio.core.folders import DEFAULT_TRACES, expand_folder
from studio.core.traces.trace_writer import TraceWriter, is_written, part_of_trace

_TOKEN = re.compile(r"[A-Za-z0-9_-]{22}")
_ORPHAN_S = 86_400.0  # age at which what is left of an unfinished trace is removed
log = logging.getLogger("studio.serve")
_WRITERS = ThreadPoolExecutor(2, thread_name_prefix="traces")  # no other work waits for the disk
_PART = part_of_trace(Path(".trace")).name
_BATCH_S = 0.5  # time between two writes


class TraceStore:
    """Stores at most ``max_traces`` traces and ``max_bytes`` bytes in one folder.

    Evicts the oldest silent trace; without one, the oldest trace of the owner with the largest share, so that no owner
    evicts the traces of others. The newest trace stays, and a silent one evicts no trace with sound. Age is the order
    of arrival, which a change of the clock does not affect. ``folder``: created with access for its user alone, since
    traces hold what users typed.
    """

    def __init__(self, folder: Path, max_traces: int, max_bytes: int) -> None:
        self.folder = _prepare_folder(folder)
        self.max_traces, self.max_bytes = max_traces, max_bytes
        self._lock = threading.Lock()
        self._writing: set[str] = set()
        self._owners: dict[str, str] = {}  # by token; unknown for traces of an earlier server
        self._arrival: dict[str, int] = {}  # by token: the order of arrival
        self._silent: dict[str, bool] = {}  # by token: whether the trace has no sound
        self._numbers = itertools.count()
        self._prune()

    def begin(self, meta: Mapping[str, Any], owner: str = "") -> tuple[str, TraceWriter]:
        """A new trace's token and writer; ``owner`` is the network address in whose share it counts. Raises OSError."""
        token = secrets.token_urlsafe(16)
        self._writing.add(token)
        self._owners[token] = owner
        try:
            return token, TraceWriter(self.folder / token, meta)
        except OSError:
            self._writing.discard(token)
            del self._owners[token]
            shutil.rmtree(self.folder / token, ignore_errors=True)
            raise

    def finish(self, writer: TraceWriter) -> None:
        """Close a trace into its zip and evict others for it. Raises OSError, after which the trace is dropped."""
        try:
            writer.close()
        except OSError:
            writer.drop()
            raise
        finally:
            self._writing.discard(writer.folder.name)
        self._prune()

    @contextlib.contextmanager
    def adding(self, owner: str = "") -> Generator[Path]:
        """The path of a new trace, ``TOKEN.trace``, which another process writes during the block.

        Raises NotStored.
        """
        token = secrets.token_urlsafe(16)
        self._writing.add(token)
        self._owners[token] = owner
        path = self.folder / f"{token}.trace"
        try:
            yield path
        except OSError as error:
            raise NotStored("the trace could not be written", "the server's owner looks at its disk") from error
        finally:
            self._writing.discard(token)
            if not path.is_file():
                shutil.rmtree(path.with_suffix(""), ignore_errors=True)
            with contextlib.suppress(OSError):
                part_of_trace(path).unlink(missing_ok=True)  # the other process may have been ended
            self._prune()

    def drop(self, writer: TraceWriter) -> None:
        """Discard a trace that is being written."""
        writer.drop()
        self._writing.discard(writer.folder.name)

    def path(self, token: str) -> Path:
        """The file of a trace. Raises BadFile where there is none, or no longer."""
        path = self.folder / f"{token}.trace"
        if not _TOKEN.fullmatch(token) or not path.is_file():
            raise self._not_found()
        return path

    def read(self, token: str) -> bytes:
        """A trace's bytes. Raises BadFile where there is none, or no longer."""
        try:
            return self.path(token).read_bytes()
        except FileNotFoundError as error:  # just evicted
            raise self._not_found() from error

    def take(self, token: str) -> bytes:
        """Remove a trace and return its bytes. Raises BadFile where there is none."""
        content = self.read(token)
        self.path(token).unlink()
        return content

    def _not_found(self) -> BadFile:
        return BadFile("there is no such trace", f"at most {self.max_traces} are kept, the newest")

    def _prune(self) -> None:
        with self._lock:
            sizes = self._sizes_oldest_first()
            while (evicted := self._to_evict(sizes)) is not None:
                (self.folder / f"{evicted}.trace").unlink(missing_ok=True)
                del sizes[evicted]
            for by_token in (self._owners, self._silent, self._arrival):
                for token in by_token.keys() - sizes.keys() - self._writing:
                    by_token.pop(token, None)
            self._remove_orphans()

    def _remove_orphans(self) -> None:
        """Remove the folders and the incomplete files that a crash left behind more than a day ago."""
        for orphan in self.folder.iterdir():
            token = orphan.name.removesuffix(_PART)
            if not _TOKEN.fullmatch(token) or token in self._writing or orphan.is_dir() != (token == orphan.name):
                continue
            try:
                changed_s = max(orphan.stat().st_mtime, _changed_and_size(orphan / "events.jsonl")[0])
            except OSError:  # its writer has just closed it
                continue
            if changed_s < time.time() - _ORPHAN_S and not is_written(orphan):  # by another server
                if token == orphan.name:
                    shutil.rmtree(orphan, ignore_errors=True)
                else:
                    orphan.unlink(missing_ok=True)
                log.warning("removed a trace that a crash had left unfinished")

    def _to_evict(self, sizes: Mapping[str, int]) -> str | None:
        """The next token to evict; None where all may stay. ``sizes`` are bytes by token, the oldest first."""
        is_too_large = sum(sizes.values()) > self.max_bytes
        if len(sizes) < 2 or (len(sizes) <= self.max_traces and not is_too_large):
            return None
        *older, newest = sizes
        if silent := next((token for token in older if self._silent[token]), None):
            return silent
        if self._silent[newest]:
            return None
        share: Counter[str] = Counter()
        for token, size in sizes.items():
            share[self._owners.get(token, "")] += size if is_too_large else 1
        return max(older, key=lambda token: share[self._owners.get(token, "")])

    def _sizes_oldest_first(self) -> dict[str, int]:
        """Bytes by token. Traces of an earlier or another server get their place by file time when first seen.

        What is no file (a folder, a pipe, a link to itself) is no trace: it stays and is never read.
        """
        files = {path.stem: _changed_and_size(path) for path in self.folder.glob("*.trace") if path.is_file()}
        for token in sorted(files.keys() - self._arrival.keys(), key=lambda token: files[token][0]):
            self._arrival[token] = next(self._numbers)
            self._silent[token] = _is_silent(self.folder / f"{token}.trace")
        return {token: files[token][1] for token in sorted(files, key=self._arrival.__getitem__)}


def _prepare_folder(folder: Path) -> Path:
    """Create the traces folder; a new temporary folder where the default one cannot be used.

    Raises BadFile: a folder that is not the default cannot be used; BadOption: the same, without a home folder.
    """
    try:
        path = expand_folder(folder, "set traces_folder to an absolute path, or set HOME")
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
    """Whether a trace has no samples; False for a file that is not a trace."""
    try:
        with zipfile.ZipFile(path) as trace:
            return trace.getinfo("audio.wav").file_size <= WAV_HEADER_BYTES
    except (OSError, KeyError, zipfile.BadZipFile):
        return False


def _changed_and_size(path: Path) -> tuple[float, int]:
    """The modification time and the size; zeros for a file that another server has just removed, or cannot be read."""
    try:
        stat = path.stat()
    except OSError:
        return 0.0, 0
    return stat.st_mtime, stat.st_size


def download_name(token: str, suffix: str) -> str:
    """The name under which a browser saves the file."""
    return f"utterance-{token[:8].strip('-_')}{suffix}"


class TraceRecorder:
    """The trace of one utterance; a full disk or an oversized trace does not stop the speech.

    Args:
        meta: the utterance's provenance.
        max_bytes: a longer trace is dropped.
        owner: the network address in whose share it counts.

    Attributes:
        token: of the trace, once it is finished; empty where none is written.
    """

    def __init__(self, trace_store: TraceStore, meta: Mapping[str, Any], max_bytes: int, owner: str = "") -> None:
        self._trace_store, self._max_bytes = trace_store, max_bytes
        self._unwritten: list[ev.Event] = []
        self._unsaved, self._ended = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.token = ""
        self._writer: TraceWriter | None = None
        try:
            self.token, self._writer = trace_store.begin(meta, owner)
        except OSError as error:
            log.warning("no trace is written: %s", error.strerror)

    def start(self) -> None:
        """Start to write; on the event loop."""
        self._task = asyncio.get_running_loop().create_task(self._write_batches())

    def add(self, event: ev.Event) -> None:
        """Add an event to the next batch."""
        if self._writer is not None and not isinstance(event, ev.Queued):
            self._unwritten.append(event)
            self._unsaved.set()

    async def finish(self) -> str | None:
        """Write the rest and close the trace. Its token, None where it could not be stored."""
        self._ended.set()
        self._unsaved.set()
        if self._task is not None:
            await self._task
        return await asyncio.get_running_loop().run_in_executor(_WRITERS, self._close)

    async def _write_batches(self) -> None:
        while not self._ended.is_set():
            await self._unsaved.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_BATCH_S):
                    await self._ended.wait()
            self._unsaved.clear()
            await asyncio.get_running_loop().run_in_executor(_WRITERS, self._write)

    def _write(self) -> None:
        events, self._unwritten = self._unwritten, []
        if self._writer is None or not events:
            return
        try:
            self._writer.write(*events)
        except OSError as error:
            self._drop(error.strerror or str(error))
        else:
            if self._writer.bytes_written > self._max_bytes:
                self._drop(f"it is longer than max_trace_bytes = {self._max_bytes}")

    def _drop(self, reason: str) -> None:
        log.warning("a trace was dropped: %s", reason)
        if self._writer is not None:
            self._trace_store.drop(self._writer)
        self._writer = None

    def _close(self) -> str | None:
        self._write()
        if self._writer is None:
            return None
        try:
            self._trace_store.finish(self._writer)
        except OSError as error:
            log.warning("a trace could not be closed: %s", error.strerror)
            return None
        return self.token
