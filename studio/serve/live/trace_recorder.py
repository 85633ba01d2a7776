"""Writes an utterance's trace while it is spoken, in batches, on shared threads."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any

from studio.core import events as ev
from studio.core.traces.trace_writer import TraceWriter
from studio.serve.trace_store import TraceStore

_BATCH_S = 0.5  # time between two writes

log = logging.getLogger("studio.serve")


class TraceRecorder:
    """The trace of one utterance; a full disk or an oversized trace does not stop the speech.

    Args:
        meta: the utterance's provenance.
        max_bytes: a longer trace is dropped.
        owner: the network address in whose share it counts.
    """

    def __init__(self, trace_store: TraceStore, meta: Mapping[str, Any], max_bytes: int, owner: str = "") -> None:
        self._trace_store, self._max_bytes = trace_store, max_bytes
        self._unwritten: list[ev.Event] = []
        self._unsaved, self._ended = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._token = ""
        self._writer: TraceWriter | None = None
        try:
            self._token, self._writer = trace_store.begin(meta, owner)
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
        return await asyncio.to_thread(self._close)

    async def _write_batches(self) -> None:
        while not self._ended.is_set():
            await self._unsaved.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_BATCH_S):
                    await self._ended.wait()
            self._unsaved.clear()
            await asyncio.to_thread(self._write)

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
        return self._token
