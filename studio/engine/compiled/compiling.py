"""How functions of this folder are compiled, and how what was compiled is kept on disk."""

import hashlib
import logging
import pickle
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numba
from numba import njit
from numba.core import caching
from numba.core.serialize import dumps

from studio.core import durable
from studio.core.folders import has_home

log = logging.getLogger("studio.engine")
_DIGEST_BYTES = 32

# Sums may be reordered within a loop, but NaN stays NaN: whoever reads what is no number says so.
_HOW: dict[str, Any] = {
    "nogil": True,
    "boundscheck": False,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
}


def compiled(function: Callable[..., Any]) -> Any:
    """Compiled for each kind of arguments at the first call with it, and kept on disk where there is a place for it.

    What is kept goes by the file of the function, not by what it calls: a compiled function calls none of another file.
    """
    dispatcher: Any = njit(**_HOW)(function)
    try:
        dispatcher._cache = _Cache(function)
    except (RuntimeError, OSError) as error:  # no folder can be written: neither beside the code nor the user's cache
        log.debug("compiled code is not kept on disk: %s", error)
    return dispatcher


class _Files:
    """Compiled code on disk, a file for each function and kind of arguments, in the place of numba's own files.

    Numba executes whatever machine code its cache holds. A file here begins with the SHA-256 of the rest, and only
    content that has it is used.
    """

    def __init__(self, folder: str, name: str, source_stamp: object) -> None:
        self._folder, self._name = Path(folder), name
        self._made_of = f"{numba.__version__} {source_stamp}\n".encode()

    def load(self, key: object) -> Any:
        """What was saved under a key; None where nothing was, or of another source. Damaged files are removed."""
        path = self._path(key)
        try:
            content = path.read_bytes()
            digest, rest = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
            if hashlib.sha256(rest).digest() != digest:
                raise ValueError("it is damaged")
            return pickle.loads(rest[len(self._made_of) :]) if rest.startswith(self._made_of) else None  # noqa: S301
        except FileNotFoundError:
            return None
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, it can be made again
            _complain(path, error)
            with suppress(OSError):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            return None

    def save(self, key: object, data: object) -> None:
        """Keep something under a key. Raises OSError."""
        rest = self._made_of + dumps(data)
        durable.replace(self._path(key), hashlib.sha256(rest).digest() + rest)

    def _path(self, key: object) -> Path:
        return self._folder / f"{self._name}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.code"


class _Impl(caching.CompileResultCacheImpl):
    _locator_classes: ClassVar[list[Any]] = [
        caching.UserProvidedCacheLocator,
        caching.InTreeCacheLocator,
        *([caching.UserWideCacheLocator] if has_home() else []),  # else it would be a folder named ~ where we stand
    ]


class _Cache(caching.FunctionCache):
    """Numba's cache of a function, whose failures cost time and nothing else."""

    _impl_class = _Impl

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        locator = self._impl.locator
        self._cache_file = _Files(locator.get_cache_path(), self._impl.filename_base, locator.get_source_stamp())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # noqa: BLE001 - it is compiled instead
            _complain(self.cache_path, error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception as error:  # noqa: BLE001 - it is compiled anew the next time
            _complain(self.cache_path, error)


_complaints: list[str] = []


def _complain(path: object, error: Exception) -> None:
    """Report the first failure of the cache; the others have the same reason."""
    if not _complaints:
        log.warning("compiled code in %s cannot be used (%s); it is compiled again, which takes seconds", path, error)
    _complaints.append(str(error))
