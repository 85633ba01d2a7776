"""The loudspeaker of this machine, by sounddevice and PortAudio."""

import threading
from typing import Any

import numpy as np

from studio.core.errors import BadOption


def sounddevice_module() -> Any:
    """The sounddevice module. Raises BadOption if it or PortAudio is missing."""
    try:
        import sounddevice
    except (ImportError, OSError) as error:
        raise BadOption(
            "sound cannot be played on this machine, and -o is missing",
            "name a file with -o, or install sounddevice (.venv/bin/pip install sounddevice) and PortAudio "
            "(on Debian: apt install libportaudio2)",
        ) from error
    return sounddevice


class Loudspeaker:
    """Plays one utterance while it is made. Raises BadOption where this machine has no loudspeaker.

    ``close`` it.
    """

    def __init__(self, rate_hz: int) -> None:
        sounddevice = sounddevice_module()
        self._lock = threading.Lock()
        self._pending = np.zeros(0, np.int16)
        self._device_samples = 0  # samples that the device has taken
        self._rate_hz = rate_hz
        self._marks: list[tuple[float, int]] = []  # when a block leaves the loudspeaker, and the samples before it
        try:
            self._stream = sounddevice.OutputStream(
                samplerate=rate_hz, channels=1, dtype="int16", latency="low", callback=self._fill
            )
            self._stream.start()
        except sounddevice.PortAudioError as error:
            raise BadOption(f"sound cannot be played on this machine: {error}", "name a file with -o") from error

    def play(self, pcm: np.ndarray, rate_hz: int) -> None:
        """Add samples int16 [T]."""
        with self._lock:
            self._pending = np.concatenate([self._pending, pcm])

    def position(self) -> int:
        """How many samples have left the loudspeaker."""
        with self._lock:
            return self._left_by(self._stream.time)

    def stop(self) -> int:
        """Silence the loudspeaker at once; returns the position."""
        with self._lock:
            self._pending = self._pending[:0]
            position = self._left_by(self._stream.time)
        self._stream.abort()
        return position

    def close(self) -> None:
        """Give the device back."""
        self._stream.close()

    def _left_by(self, now_s: float) -> int:
        """Samples that left before a time of the stream; blocks that did are forgotten."""
        marks = self._marks
        while len(marks) > 1 and marks[1][0] <= now_s:
            marks.pop(0)
        if not marks or now_s < marks[0][0]:
            return marks[0][1] if marks else 0
        end = marks[1][1] if len(marks) > 1 else self._device_samples
        return min(end, marks[0][1] + round((now_s - marks[0][0]) * self._rate_hz))

    def _fill(self, out: np.ndarray, frames: int, timing: Any, status: object) -> None:
        with self._lock:
            block, self._pending = self._pending[:frames], self._pending[frames:]
            if len(block):
                self._marks.append((timing.outputBufferDacTime, self._device_samples))
            self._device_samples += len(block)
        out[: len(block), 0] = block
        out[len(block) :] = 0
