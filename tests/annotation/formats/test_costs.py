"""Hostile files of up to 16 MB: each is refused, or read, within 2 s of CPU time and 300 MB.

They are read in forks of a process that runs this file, as small as the server's trace process.
"""

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from needs import needs

from studio.core.errors import BadFile
from studio.library.exchange import read_annotation

RATE_HZ, SAMPLES = 24_000, 14_400_000
MAX_BYTES, MAX_MB, MAX_S = 16_000_000, 300.0, 2.0
_GRID = b'File type = "ooTextFile"\nObject class = "TextGrid"\n\n0\n600\n<exists>\n'
_REGION = {"from_name": "a", "type": "labels", "value": {"start": 0.1, "end": 0.2, "labels": ["x"]}}


def _full(line: bytes, head: bytes = b"") -> bytes:
    return head + line * ((MAX_BYTES - len(head)) // len(line))


def _regions(count: int) -> bytes:
    return json.dumps([{"data": {}, "annotations": [{"result": [_REGION] * count}]}]).encode()


HOSTILE: dict[str, tuple[str, Callable[[], bytes]]] = {
    "rows": ("csv", lambda: _full(b"w,,x\n", b"layer,start_s,label\n")),
    "marks in many layers": (
        "csv",
        lambda: b"layer,start_s,end_s\n" + b"".join(b"l%d,1,2\n" % (i % 400) for i in range(10**6)),
    ),
    "columns": (
        "csv",
        lambda: _full(b"1" + b"," * 900 + b"\n", b"start_s," + b",".join(b"c%d" % i for i in range(900))),
    ),
    "blanks behind quotes": ("csv", lambda: _full(b'1,"a" \n', b"start_s,label\n")),
    "blank lines": ("csv", lambda: _full(b"\n", b"start_s\n")),
    "labels": ("audacity", lambda: _full(b"0\t1\ta\n")),
    "empty lines": ("audacity", lambda: _full(b"\n")),
    "spectral lines": ("audacity", lambda: _full(b"\\\n")),
    "intervals": ("textgrid", lambda: _full(b'0\n1\n""\n', _GRID + b'1\n"IntervalTier"\n"a"\n0\n600\n99999\n')),
    "points": ("textgrid", lambda: _GRID + b"5\n" + (b'"TextTier"\n"a"\n0\n600\n19900\n' + b'1\n"x"\n' * 19_900) * 5),
    "objects": ("labelstudio", lambda: b"[" + _full(b"{},")[:-9] + b"{}]"),
    "objects with lists": ("labelstudio", lambda: b"[" + _full(b'{"a":[]},')[:-9] + b"{}]"),
    "numbers": ("labelstudio", lambda: b"[" + _full(b"1,")[:-8] + b"1]"),
    "brackets": ("labelstudio", lambda: b"[" * (MAX_BYTES // 2) + b"]" * (MAX_BYTES // 2)),
    "regions": ("labelstudio", lambda: _regions(49_000)),
    "elements": ("eaf", lambda: b"<a>" + _full(b"<b/>")[:-8] + b"</a>"),
    "attributes": ("eaf", lambda: b"<a " + b" ".join(b'a%d="1"' % i for i in range(1_100_000)) + b"/>"),
    "time slots": (
        "eaf",
        lambda: (
            b"<ANNOTATION_DOCUMENT><TIME_ORDER>"
            + b"".join(b'<TIME_SLOT TIME_SLOT_ID="t%d" TIME_VALUE="1"/>' % i for i in range(199_000))
            + b"</TIME_ORDER></ANNOTATION_DOCUMENT>"
        ),
    ),
}


def _read(name: str, data: bytes, costs: "multiprocessing.SimpleQueue[tuple[float, float]]") -> None:
    """Time and memory of reading a file, in a process whose highest memory starts from now."""
    Path("/proc/self/clear_refs").write_text("5")
    before_mb, began_s = _highest_mb(), time.process_time()
    with suppress(BadFile):
        read_annotation(name, data, RATE_HZ, SAMPLES)
    costs.put((time.process_time() - began_s, _highest_mb() - before_mb))


def _highest_mb() -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1.024e-3 * int(next(line for line in status if line.startswith("VmHWM")).split()[1])


def _cost(what: str) -> tuple[float, float] | None:
    """CPU seconds and megabytes; None if reading raised another error than BadFile."""
    name, make = HOSTILE[what]
    data = make()
    assert 500_000 < len(data) <= MAX_BYTES
    forked = multiprocessing.get_context("fork")
    costs = forked.SimpleQueue()
    process = forked.Process(target=_read, args=(name, data, costs))
    process.start()
    process.join(60.0)
    return None if costs.empty() else costs.get()


@pytest.fixture(scope="module")
def costs() -> dict[str, tuple[float, float] | None]:
    """What reading each file costs."""
    needs(Path("/proc/self/clear_refs").exists(), "/proc")
    environ = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    out = subprocess.run([sys.executable, __file__], env=environ, capture_output=True, check=True)
    return json.loads(out.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_file_costs_little(what: str, costs: dict[str, tuple[float, float] | None]) -> None:
    cost = costs[what]
    assert cost, "it was refused with another error"
    taken_s, grown_mb = cost
    assert grown_mb <= MAX_MB
    assert taken_s <= 3 * MAX_S, "of CPU time: cores that are shared take up to three times as much"


if __name__ == "__main__":
    print(json.dumps({what: _cost(what) for what in HOSTILE}))
