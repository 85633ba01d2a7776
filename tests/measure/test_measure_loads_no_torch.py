"""Measuring loads no torch until something that needs it is asked for."""

import subprocess
import sys

NAMES = [
    "wer",
    "bootstrap",
    "signal.resample",
    "recognisers.choose",
    "timing.boundaries",
    "signal.spectral",
    "seams",
    "signal.loudness",
    "latency",
    "report",
]


def test_importing_measure_loads_no_torch():
    code = f"import sys; [__import__('studio.measure.' + n) for n in {NAMES}]; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
