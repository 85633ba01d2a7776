"""Compilation of the CPU kernels, with a cache on disk that verifies its files."""

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
from studio.core.errors import BadOption
from studio.core.files import read_bounded
from studio.core.folders import DEFAULT_CACHE, expand_folder

log = logging.getLogger("studio.engine")
_DIGEST_BYTES = 32
_MAX_BYTES = 64_000_000  # of one function's code
_TILES = Path(__file__).with_name("tiles.py")  # inlined in kernels

# Sums may be reordered within a loop, but NaN stays NaN: NotFinite is raised where results are read.
_NJIT_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "boundscheck": False,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
}


def cached_njit(function: Callable[..., Any]) -> Any:
    """Compile a function at its first call with each signature, and cache the code on disk where possible.

    The cache is keyed by the function's source file and by ``tiles``, not by what the function calls, so it must not
    call a compiled function of another file.
    """
    dispatcher: Any = njit(**_NJIT_OPTIONS)(function)
    try:
        dispatcher._cache = _Cache(function)
    except (RuntimeError, OSError) as error:
        _log_failure(function.__code__.co_filename, error)
    return dispatcher


class _Files:
    """Compiled code on disk: one file per function and signature, instead of numba's index and data files.

    Numba executes any machine code that its cache holds. Here a file starts with the SHA-256 of the rest, and content
    with another digest is never used.
    """

    def __init__(self, folder: str, name: str, source_stamp: object) -> None:
        self._folder, self._name = Path(folder), name
        self._origin = f"{numba.__version__} {source_stamp} {name}\n".encode()

    def load(self, key: object) -> Any:
        """The data saved under a key, or None if there is none for this source and numba; removes a damaged file."""
        path = self._path(key)
        try:
            content = read_bounded(path, _MAX_BYTES)  # a pipe in its place would block
            digest, rest = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
            if hashlib.sha256(rest).digest() != digest:
                raise ValueError("it is damaged")
            origin = self._origin + repr(key).encode()  # a file under another name is not used
            return pickle.loads(rest[len(origin) :]) if rest.startswith(origin) else None  # noqa: S301
        except FileNotFoundError:
            return None
        except Exception as error:  # noqa: BLE001 - any failure means to compile again
            _log_failure(path, error)
            with suppress(OSError):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            return None

    def save(self, key: object, data: object) -> None:
        """Replace the data of a key. Raises OSError."""
        durable.remove_stale_parts(self._folder, f"{self._name}.*")  # of processes that were killed while they saved
        rest = self._origin + repr(key).encode() + dumps(data)
        durable.replace(self._path(key), hashlib.sha256(rest).digest() + rest)

    def _path(self, key: object) -> Path:
        return self._folder / f"{self._name}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.code"


class _UserFolder(caching.UserWideCacheLocator):
    """The user's cache folder. Without a home folder, numba's own would be "~" in the working directory."""

    def ensure_cache_path(self) -> None:
        """Make the folder. Raises OSError, also where no home folder is known."""
        try:
            cache = expand_folder(DEFAULT_CACHE, "set HOME or XDG_CACHE_HOME")
        except BadOption as error:
            raise OSError(str(error)) from error
        self._cache_path = str(cache / "compiled" / self.get_suitable_cache_subpath(self._py_file))
        super().ensure_cache_path()


class _Impl(caching.CompileResultCacheImpl):
    _locator_classes: ClassVar[list[Any]] = [caching.UserProvidedCacheLocator, caching.InTreeCacheLocator, _UserFolder]


class _Cache(caching.FunctionCache):
    """Numba's cache of one function, except that a failure only costs the time to compile."""

    _impl_class = _Impl

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        locator = self._impl.locator
        tiles = _TILES.stat()
        source_stamp = (locator.get_source_stamp(), (tiles.st_mtime, tiles.st_size))
        self._cache_file = _Files(locator.get_cache_path(), self._impl.filename_base, source_stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # noqa: BLE001 - any failure means to compile again
            _log_failure(self.cache_path, error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception as error:  # noqa: BLE001 - the next process compiles again
            _log_failure(self.cache_path, error)


_failures: list[str] = []


def _log_failure(path: object, error: Exception) -> None:
    """Log the first failure of the cache; later ones in this process usually have the same cause."""
    if not _failures:
        log.warning(
            "the cache of compiled code failed at %s (%s); functions are compiled again, which takes seconds; "
            "NUMBA_CACHE_DIR can name another folder",
            path,
            str(error) or type(error).__name__,
        )
    _failures.append(str(error))
