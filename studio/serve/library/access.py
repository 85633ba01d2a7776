"""Access of the routes to the library, which is opened at the first call: a damaged one does not stop the server."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from fastapi import Depends
from starlette.concurrency import run_in_threadpool

from studio.core.errors import BadFile, BadOption
from studio.library.entries import LibraryEntry
from studio.library.library import Library
from studio.serve.auth import TokenAuth
from studio.serve.traces.inspection import TraceViews

T = TypeVar("T")


class LibraryAccess:
    """The library of a folder, the callers' authentication and the views of traces.

    Attributes:
        owner_only: dependencies of a router that requires the owner's token.
    """

    def __init__(self, root: Path, auth: TokenAuth, views: TraceViews) -> None:
        self.auth, self.views = auth, views
        self.owner_only = [Depends(auth.owner)]
        self._root = root
        self._lock = threading.Lock()
        self._library: Library | None = None

    async def call(self, work: Callable[[Library], T]) -> T:
        """Run ``work`` in a thread. Raises BadFile where the folder cannot be used, and what ``work`` raises."""
        return await run_in_threadpool(lambda: work(self._open()))

    def _open(self) -> Library:
        with self._lock:
            if self._library is None:
                self._library = Library(self._root)
            return self._library


def find_entry(library: Library, name: str) -> LibraryEntry:
    """An entry by name. Raises BadFile where there is none."""
    try:
        return library.entry(name)
    except BadOption as error:
        raise BadFile(f"the library has no {name[:64]!r}", "the Library page lists what it has") from error
