"""Audio outputs: a loudspeaker through sounddevice and PortAudio, or a sink that only keeps time."""

import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from studio.core.errors import BadOption
from studio.desktop.player import Player

NULL = "null (keeps time)"
_BLOCK_S = 0.01  # of the sink
_LATENCY_S = 0.02  # from the callback to the loudspeaker: the most that Python may be late
TO_FILE = "name a file with -o"  # instead of a loudspeaker
TO_NOTHING = "give --null-audio, which plays nothing"
_INSTALL = (
    "pip install sounddevice, and install PortAudio (on Debian: apt install libportaudio2; on "
    "macOS the package includes it)"
)
_NO_DEVICE = "connect one; on Linux pipewire-alsa (PipeWire) or libasound2-plugins (PulseAudio) makes theirs visible"


class Output(Protocol):
    """An open output that calls ``Player.fill``."""

    def close(self) -> None:
        """Release the device."""
        ...


def sounddevice_module(instead: str) -> Any:
    """The sounddevice module. Raises BadOption if it or PortAudio is missing.

    Args:
        instead: what the user can do without them, such as "name a file with -o".
    """
    try:
        import sounddevice
    except (ImportError, OSError) as error:
        raise BadOption("sound cannot be played on this machine", f"{instead}, or {_INSTALL}") from error
    return sounddevice


def output_names(instead: str) -> list[str]:
    """Names of the outputs of this machine, the default first. Raises BadOption: there is none."""
    sounddevice = sounddevice_module(instead)
    found = [one["name"] for one in sounddevice.query_devices() if one["max_output_channels"] > 0]
    if not found:
        raise BadOption("this machine has no audio output", f"{instead}, or {_NO_DEVICE}")
    with suppress(sounddevice.PortAudioError):
        found.insert(0, sounddevice.query_devices(kind="output")["name"])
    return list(dict.fromkeys(found))


def open_output(player: Player, name: str, instead: str) -> Output:
    """Open and start an output; an empty name is the default one, NULL the sink.

    Raises:
        BadOption: sounddevice or PortAudio is missing, or the output does not exist or refuses the voice's rate.
    """
    if name == NULL:
        return NullOutput(player)
    sounddevice = sounddevice_module(instead)
    try:
        stream = sounddevice.OutputStream(
            samplerate=player.rate_hz,
            channels=1,
            dtype="int16",
            latency=_LATENCY_S,
            device=name or None,
            callback=player.fill,
        )
        stream.start()
    except (sounddevice.PortAudioError, ValueError) as error:  # ValueError: no or several devices of this name
        raise BadOption(f"sound cannot be played on this machine: {error}", f"{instead}, or {_NO_DEVICE}") from error
    return stream


@dataclass
class _Timing:
    currentTime: float = 0.0  # noqa: N815 - names of PortAudio
    outputBufferDacTime: float = 0.0  # noqa: N815


@dataclass(frozen=True)
class _Status:
    output_underflow: bool = True


class NullOutput:
    """A sink that takes a block every 10 ms, like a device with three such buffers, and drops it.

    A block that comes 20 ms late is an underflow; the lost time is not made up.
    """

    def __init__(self, player: Player) -> None:
        self._player = player
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="null output", daemon=True)
        self._thread.start()

    def take(self, block: np.ndarray) -> None:
        """Play a block int16 [frames, 1]; tests override this to keep it."""

    def close(self) -> None:
        """Stop."""
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        frames = round(_BLOCK_S * self._player.rate_hz)
        block, timing, underflow = np.zeros((frames, 1), np.int16), _Timing(), _Status()
        due_s = time.perf_counter()
        while not self._is_over.wait(max(0.0, due_s - time.perf_counter())):
            now_s = time.perf_counter()
            is_late = now_s > due_s + _LATENCY_S
            due_s = now_s if is_late else due_s
            timing.currentTime, timing.outputBufferDacTime = now_s, due_s + _LATENCY_S
            self._player.fill(block, frames, timing, underflow if is_late else None)
            self.take(block)
            due_s += frames / self._player.rate_hz
