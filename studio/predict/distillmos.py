"""DistillMOS (Stahl and Gamper 2025) in a process of its own: whoever asks loads no torch.

It was distilled from a predictor that learned from listeners' scores, and hears 7.68 s at a time: what is shorter is
filled up with silence, which costs points. So its scores are compared over the same texts only.
"""

import importlib.util
import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from studio.core.errors import NeedsPackage, StudioError
from studio.measure.signal.resample import at_16k

PROCESS = "studio.predict.distillmos_process"
HEADER = struct.Struct("<I")  # samples that follow, s16le at 16 kHz
_ROOT = Path(__file__).resolve().parents[2]
_STOPS_WITHIN_S = 10.0


class PredictorFailed(StudioError):
    """The predictor's process ended when it should have answered."""

    code = "predictor_failed"


class DistillMos:
    """A predictor of MOS; closed, or left as a context manager, it ends its process.

    Args:
        threads: of arithmetic.

    Raises:
        NeedsPackage: distillmos or torch is not installed.
        PredictorFailed: its process did not start, or broke off.
    """

    def __init__(self, threads: int = 1) -> None:
        for package in ("distillmos", "torch"):
            if importlib.util.find_spec(package) is None:
                raise NeedsPackage(f"predicted MOS needs {package}", "pip install 'streaming-tts-studio[predict]'")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", PROCESS, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": path},
        )
        try:
            self._about: dict[str, str] = self._answer()
        except BaseException:
            self.close()
            raise

    @property
    def about(self) -> dict[str, str]:
        """Name, version and the weights' sha256."""
        return self._about

    def predict(self, pcm: np.ndarray, rate_hz: int) -> float:
        """The predicted MOS of int16 [T] at any rate."""
        samples = at_16k(pcm, rate_hz).astype("<i2").tobytes()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(HEADER.pack(len(samples) // 2) + samples)
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError) as error:
            raise self._broken_off() from error
        return float(self._answer()["mos"])

    def close(self) -> None:
        """End the process."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue
        try:
            self._process.wait(_STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()

    def __enter__(self) -> "DistillMos":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise self._broken_off()
        return json.loads(line)

    def _broken_off(self) -> PredictorFailed:
        self._process.poll()
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()
        why = said[-1] if said else f"exit status {self._process.returncode}"
        return PredictorFailed(
            f"the predictor of MOS broke off ({why})", "what was predicted so far is kept: try again"
        )
