"""HTTP floods by one network address: closed loops of requests on many connections.

``python http_floods.py PORT CONNECTIONS PIPELINED PATH...`` sends requests until its input ends, then prints the number
of responses by status. A path with a body after a blank is posted as JSON. It imports only the standard library, so
that it starts quickly.
"""

import asyncio
import json
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@contextmanager
def http_flood(port: int, paths: Sequence[str], connections: int, pipelined: int = 1) -> Iterator[dict[str, int]]:
    """Flood during the block; the dictionary, responses by status, is filled at its end."""
    command = [sys.executable, __file__, str(port), str(connections), str(pipelined), *paths]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as sending:
        assert sending.stdout is not None, "a pipe"
        sending.stdout.readline()
        answers: dict[str, int] = {}
        try:
            yield answers
        finally:
            answers |= json.loads(sending.communicate()[0])


class _Sender(asyncio.Protocol):
    """One connection with ``pipelined`` requests outstanding; opened again when the server closes it."""

    def __init__(self, port: int, paths: Iterator[str], pipelined: int, answers: Counter[str]) -> None:
        self._port, self._paths, self._pipelined, self._answers = port, paths, pipelined, answers
        self._data, self._left, self._body_bytes = bytearray(), 0, 0

    async def open(self) -> None:
        """Connect; tries again after a refused connection."""
        while True:
            try:
                await asyncio.get_running_loop().create_connection(lambda: self, "127.0.0.1", self._port)
                return
            except OSError:
                await asyncio.sleep(0.1)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        self._data.clear()
        self._left, self._body_bytes = 0, 0
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        self._task = asyncio.ensure_future(self.open())

    def data_received(self, data: bytes) -> None:
        while data:
            if self._body_bytes:
                taken = min(self._body_bytes, len(data))
                self._body_bytes -= taken
                data = data[taken:]
            else:
                self._data += data
                head, end, rest = bytes(self._data).partition(b"\r\n\r\n")
                if not end:
                    return
                data = rest
                self._data.clear()
                self._answers[head[9:12].decode("ascii", "replace")] += 1
                length = _LENGTH.search(head)
                self._body_bytes = int(length[1]) if length else 0
            if not self._body_bytes:
                self._left -= 1
                if not self._left:
                    self._send()

    def _send(self) -> None:
        self._left = self._pipelined
        self._transport.write("".join(_request(next(self._paths)) for _ in range(self._pipelined)).encode("ascii"))


def _request(path: str) -> str:
    path, _, body = path.partition(" ")
    head = f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    return head + (f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}" if body else "\r\n")


async def _flood(port: int, connections: int, pipelined: int, paths: Sequence[str]) -> None:
    over, loop, answers = asyncio.Event(), asyncio.get_running_loop(), Counter[str]()
    turns = cycle(paths)
    senders = [_Sender(port, turns, pipelined, answers) for _ in range(connections)]
    await asyncio.gather(*(one.open() for one in senders))
    print("sending", flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), loop.call_soon_threadsafe(over.set)), daemon=True).start()
    await over.wait()
    print(json.dumps(answers))


if __name__ == "__main__":
    asyncio.run(_flood(*map(int, sys.argv[1:4]), sys.argv[4:]))
