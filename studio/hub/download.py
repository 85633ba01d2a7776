"""Download one file of a repository, resuming an interrupted download and checking size and hash.

The client's own download starts an interrupted file anew, and buffers 10 MB before it writes.
"""

import errno
import hashlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from studio.core import durable
from studio.core.cards import sha256_of
from studio.core.errors import NotStored
from studio.core.files import open_unbuffered
from studio.hub.client import LIBRARY, HubBusy, HubError, hub_errors

_TRIES = 5  # in a row without a new byte
_RETRY_WAIT_S = 1.0
_MIN_BYTES_PER_S = 5_000  # the download from a slower host is abandoned
_GRACE_S = 60.0
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class RemoteFile:
    """A file as the hub lists it.

    Attributes:
        size_bytes: its length.
        sha256: of a file in large file storage; empty for one in git.
        git_sha1: of a file in git.
        path: in its repository, if it differs from the name.
        repo, revision: of the file, if they differ from the other files'.
    """

    name: str
    size_bytes: int
    sha256: str
    git_sha1: str
    path: str = ""
    repo: str = ""
    revision: str = ""

    def matches(self, path: Path) -> bool:
        """Whether a local file has the listed size and hash."""
        if not path.is_file() or path.stat().st_size != self.size_bytes:
            return False
        if self.sha256:
            return sha256_of(path) == self.sha256
        digest = hashlib.sha1(f"blob {self.size_bytes}\0".encode(), usedforsecurity=False)
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        return digest.hexdigest() == self.git_sha1


def fetch(repo: str, revision: str, remote: RemoteFile, folder: Path, advance: Callable[[int], None]) -> Path:
    """Fetch a file into a folder; an interrupted download is completed.

    Args:
        revision: hex sha of a commit.
        advance: called with numbers of fetched bytes, negative for bytes to fetch again.

    Raises:
        HubError, HubBusy: see ``hub_errors``; or the content differs from the hub's listing.
        NotStored: the disk is full. The next call continues from the fetched part.
    """
    repo, revision = remote.repo or repo, remote.revision or revision
    path = folder / remote.name
    if remote.matches(path):
        advance(remote.size_bytes)
        return path
    part = folder / f"{remote.name}{durable.PART}"
    try:
        was_resumed = part.is_file() and part.stat().st_size > 0
        _complete(repo, revision, remote, part, advance)
        if not remote.matches(part) and was_resumed:  # the part may be of another version of the file
            part.unlink()
            advance(-remote.size_bytes)
            _complete(repo, revision, remote, part, advance)
        if not remote.matches(part):
            part.unlink()
            problem = f"{remote.name} of {repo} is not the file that the hub lists: its hash differs"
            raise HubError(problem, "repeat the command; if it fails again, report it to the repository's owner")
        durable.publish(part, path)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        do = f"free space in {folder.parent.parent}, then repeat the command: it goes on where it stopped"
        raise NotStored(f"the disk is full; {remote.name} is not complete", do) from error
    return path


def _complete(repo: str, revision: str, remote: RemoteFile, part: Path, advance: Callable[[int], None]) -> None:
    """Append to a part until it has the listed size; retries until ``_TRIES`` in a row bring no bytes."""
    tries, deadline_s = _TRIES, time.monotonic() + _GRACE_S + remote.size_bytes / _MIN_BYTES_PER_S
    with open_unbuffered(part, "ab") as file:
        if file.tell() > remote.size_bytes:
            file.truncate(0)
        advance(file.tell())
        while True:
            before = file.seek(0, 2)
            try:
                with hub_errors(repo, revision):
                    _append(repo, revision, remote, file, deadline_s, advance)
                return
            except HubBusy:
                tries = _TRIES if file.tell() > before else tries - 1
                if tries <= 0:
                    raise
                time.sleep(_RETRY_WAIT_S)


def _append(
    repo: str, revision: str, remote: RemoteFile, file: BinaryIO, deadline_s: float, advance: Callable[[int], None]
) -> None:
    from huggingface_hub import constants, hf_hub_url
    from huggingface_hub.utils import build_hf_headers, hf_raise_for_status, http_stream_backoff

    start = file.tell()
    if start == remote.size_bytes:
        return
    url = hf_hub_url(repo, remote.path or remote.name, revision=revision, endpoint=constants.ENDPOINT)
    headers = build_hf_headers(library_name=LIBRARY) | {"Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    how = {"timeout": constants.HF_HUB_DOWNLOAD_TIMEOUT, "retry_on_exceptions": (), "max_retries": 1}
    # Redirects of large files to another host are followed without the token.
    with http_stream_backoff("GET", url, headers=headers, **how) as response:
        if response.status_code != 416:
            hf_raise_for_status(response)
        if start and not _continues(response.headers.get("Content-Range", ""), start):
            file.truncate(0)  # the server sends the whole file
            file.seek(0)
            advance(-start)
            if response.status_code != 200:
                raise HubBusy(f"the hub does not resume {remote.name}", "repeat the command")
        for block in response.iter_bytes():
            if file.tell() + len(block) > remote.size_bytes:
                raise HubError(f"{remote.name} of {repo} is longer than the hub lists", "pull another revision")
            _write(file, block)
            advance(len(block))
            if time.monotonic() > deadline_s:
                problem = f"the host sends less than {_MIN_BYTES_PER_S // 1000} kB a second"
                raise HubError(problem, "repeat the command later: it goes on where it stopped")
    if file.tell() < remote.size_bytes:
        raise HubBusy(f"the hub ended {remote.name} early", "repeat the command: it goes on where it stopped")


def _write(file: BinaryIO, block: bytes) -> None:
    left = memoryview(block)
    while left:
        left = left[file.write(left) :]


def _continues(content_range: str, start: int) -> bool:
    match = re.match(r"bytes (\d+)-", content_range)
    return match is not None and int(match[1]) == start
