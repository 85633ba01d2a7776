"""Programs without a shell, in process groups of their own that are killed with them."""

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
    """The environment without the studio's own settings, which hold its key."""
    return {name: value for name, value in os.environ.items() if not name.startswith("STUDIO_")} | {**via_variables()}


async def start(
    arguments: Sequence[str], env: Mapping[str, str], *, has_input: bool, limit: int = 65_536
) -> asyncio.subprocess.Process:
    """Start a program. Raises SystemFailed: it cannot be started.

    Args:
        limit: bytes of a line of its output.
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
    """The last line of a stream, which is read to its end, fit to be shown."""
    last = b""
    while block := await stream.read(_MAX_ERROR_BYTES):
        last = (last + block)[-_MAX_ERROR_BYTES:]
    return escape_unprintable(last.decode("utf-8", "replace").strip().rpartition("\n")[2])[:300]


async def kill(process: asyncio.subprocess.Process, *tasks: asyncio.Task[Any]) -> None:
    """End a program and whatever it started, and the tasks that serve it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for task in tasks:
        task.cancel()
    process._transport.close()  # pyright: ignore[reportAttributeAccessIssue] - unread sound keeps it open
    await asyncio.wait((asyncio.ensure_future(process.wait()), *tasks), timeout=1.0)
