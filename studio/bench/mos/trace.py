"""What the kernel saw: between an answer's arrival and its acknowledgement, the database's log was synced."""

import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from studio.core.errors import NeedsPackage

_CALLS = "recvfrom,recvmsg,read,sendto,sendmsg,write,pwrite64,fdatasync,fsync"
_LINE = re.compile(r"^(?P<pid>\d+)\s+(?P<rest>.*)$")
_RESUMED = re.compile(r"^<\.\.\. (?P<call>\w+) resumed>(?P<rest>.*)$")
_CALL = re.compile(r"^(?P<call>\w+)\((?P<fd>\d+)<(?P<file>[^>]*)>(?P<rest>.*)$")
_UNFINISHED = " <unfinished ...>"


def tracer(out: Path) -> list[str]:
    """The command that a server runs under. Raises NeedsPackage."""
    if shutil.which("strace") is None:
        raise NeedsPackage("what the kernel does is shown by strace, which is not installed", "apt-get install strace")
    return ["strace", "-f", "-q", "-y", "-s", "32", "-e", f"trace={_CALLS}", "-e", "signal=none", "-o", str(out)]


@dataclass
class Synced:
    """Answers acknowledged, and those of them whose acknowledgement waited for a sync of what was written for them."""

    answers: int = 0
    synced: int = 0


@dataclass
class _Waiting:
    """An answer that has arrived on a connection; how far its way to the disk was seen."""

    written: bool = False
    syncing: set[str] = field(default_factory=set[str])
    synced: bool = False


def synced_answers(lines: Iterable[str]) -> Synced:
    """Read strace's output (``tracer``): lines stand in the order of events, a call that blocked on two of them."""
    found = Synced()
    waiting: dict[str, _Waiting] = {}
    begun: dict[str, tuple[str, str, str]] = {}
    for line in lines:
        split = _LINE.match(line)
        if split is None:
            continue
        pid, rest = split["pid"], split["rest"]
        resumed = _RESUMED.match(rest)
        if resumed is not None:
            if pid in begun:
                call, fd, file = begun.pop(pid)
                _ended(waiting, pid, call, fd, file, resumed["rest"])
            continue
        match = _CALL.match(rest)
        if match is None:
            continue
        call, fd, file = match["call"], match["fd"], match["file"]
        _begun(found, waiting, pid, call, fd, file, match["rest"])
        if rest.endswith(_UNFINISHED):
            begun[pid] = (call, fd, file)
        else:
            _ended(waiting, pid, call, fd, file, match["rest"])
    return found


def _begun(found: Synced, waiting: dict[str, _Waiting], pid: str, call: str, fd: str, file: str, text: str) -> None:
    """A call was entered: a sync counts for what is written by now, an answer goes out with what is synced by now."""
    if call in ("fdatasync", "fsync") and file.endswith("-wal"):
        for one in waiting.values():
            if one.written:
                one.syncing.add(pid)
    if call in ("sendto", "sendmsg", "write") and '"HTTP/1.1 ' in text and fd in waiting:
        one = waiting.pop(fd)
        found.answers += 1
        found.synced += one.synced


def _ended(waiting: dict[str, _Waiting], pid: str, call: str, fd: str, file: str, text: str) -> None:
    if call in ("recvfrom", "recvmsg", "read") and '"POST /mos/answer' in text:
        waiting[fd] = _Waiting()
    if call == "pwrite64" and file.endswith("-wal"):
        for one in waiting.values():
            one.written = True
    if call in ("fdatasync", "fsync") and file.endswith("-wal"):
        for one in waiting.values():
            one.synced |= pid in one.syncing and text.rstrip().endswith("= 0")
            one.syncing.discard(pid)
