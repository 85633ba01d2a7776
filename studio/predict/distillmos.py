"""DistillMOS (Stahl and Gamper 2025) in a separate process, so that the caller does not load torch.

The model was distilled from a predictor trained on listeners' scores. It scores windows of 7.68 s and pads shorter ones
with silence, which lowers the score: compare scores only over the same texts.
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
from typing import Any, Protocol

import numpy as np

from studio.core.errors import NeedsPackage, StudioError
from studio.measure.signal import at_16k

PROCESS = "studio.predict.distillmos_process"
HEADER = struct.Struct("<I")  # samples that follow, s16le at 16 kHz
_ROOT = Path(__file__).resolve().parents[2]
_STOPS_WITHIN_S = 10.0


class PredictorFailed(StudioError, code="predictor_failed"):
    """The predictor's process ended instead of answering."""


class MosPredictor(Protocol):
    """Predicts the mean opinion score of a sound; shown beside listeners' scores, never in their place."""

    @property
    def about(self) -> dict[str, str]:
        """Provenance for saved results: ``name``, ``version`` of the package, ``sha256`` of the weights."""
        ...

    def predict(self, pcm: np.ndarray, rate_hz: int) -> float:
        """Predicted MOS, 1 to 5, of int16 [T] at any rate; deterministic."""
        ...


class DistillMos:
    """DistillMOS as a subprocess, which ends with ``close`` or the context manager.

    Args:
        threads: CPU threads of the model.

    Raises:
        NeedsPackage: distillmos or torch is not installed.
        PredictorFailed: its process did not start, or stopped.
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
            raise self._failure() from error
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
            raise self._failure()
        return json.loads(line)

    def _failure(self) -> PredictorFailed:
        self._process.poll()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        why = lines[-1] if lines else f"exit status {self._process.returncode}"
        return PredictorFailed(f"the MOS predictor stopped ({why})", "earlier predictions are kept: try again")
