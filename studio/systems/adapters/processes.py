"""Programs without a shell, each in a separate process group that is killed with it."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from studio.core.checks import escape_unprintable
from studio.core.via import via_variables
from studio.systems.sound import SystemFailed

_MAX_ERROR_BYTES = 4_000


def environment() -> dict[str, str]:
    """The environment without the studio's own settings, which include its key."""
    return {name: value for name, value in os.environ.items() if not name.startswith("STUDIO_")} | {**via_variables()}


async def start(
    arguments: Sequence[str], env: Mapping[str, str], *, has_input: bool, limit: int = 65_536
) -> asyncio.subprocess.Process:
    """Start a program. Raises SystemFailed: it cannot be started.

    Args:
        limit: longest line of its output, bytes.
    """
    try:
        return await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.PIPE if has_input else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            env=env,
            limit=limit,
        )
    except OSError as error:
        why = f"{arguments[0]} cannot be started: {error.strerror or error}"
        raise SystemFailed(why, "install it, or give its whole path in the system's command") from error


async def last_line(stream: Any) -> str:
    """Read a stream to its end; its last line, at most 300 characters, with unprintable ones escaped."""
    last = b""
    while block := await stream.read(_MAX_ERROR_BYTES):
        last = (last + block)[-_MAX_ERROR_BYTES:]
    return escape_unprintable(last.decode("utf-8", "replace").strip().rpartition("\n")[2])[:300]


async def kill(process: asyncio.subprocess.Process, *tasks: asyncio.Task[Any]) -> None:
    """Kill a program and its children, and cancel the tasks that serve it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for task in tasks:
        task.cancel()
    process._transport.close()  # pyright: ignore[reportAttributeAccessIssue] - unread output keeps it open
    await asyncio.wait((asyncio.ensure_future(process.wait()), *tasks), timeout=1.0)
