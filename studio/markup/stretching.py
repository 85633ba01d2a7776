"""Changes the rate of speech but not its pitch, by FFmpeg (PyAV)."""

from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np

from studio.core.errors import needs

_NOTHING = np.zeros(0, np.int16)


class Stretcher:
    """Changes the rate of a stream of samples but not its pitch, by FFmpeg's ``atempo``.

    Args:
        rate: 2 for twice as fast; 0.5 to 4.
    """

    def __init__(self, rate_hz: int, rate: float) -> None:
        with needs("another rate of speech needs the package av", "app"):
            import av
        self._av: Any = av
        self._rate_hz, self._at = rate_hz, 0
        graph = self._av.filter.Graph()
        source = f"sample_rate={rate_hz}:sample_fmt=s16:channel_layout=mono:time_base=1/{rate_hz}"
        sink = f"sample_fmts=s16:sample_rates={rate_hz}:channel_layouts=mono"
        chain = (("abuffer", source), ("atempo", str(rate)), ("aformat", sink), ("abuffersink", None))
        graph.link_nodes(*(graph.add(name, options) for name, options in chain)).configure()
        self._graph: Any = graph

    def feed(self, pcm: np.ndarray) -> np.ndarray:
        """The stretched samples [T'] that are complete after these samples [T]."""
        frame: Any = self._av.AudioFrame.from_ndarray(pcm[None], format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = self._rate_hz, self._at, Fraction(1, self._rate_hz)
        self._at += len(pcm)
        return self._pushed(frame)

    def finish(self, samples: int | None = None) -> np.ndarray:
        """The last samples [T]; with ``samples``, cut or padded to this length."""
        rest = self._pushed(None)[:samples]
        return rest if samples is None else np.pad(rest, (0, samples - len(rest)))

    def _pushed(self, frame: Any) -> np.ndarray:
        self._graph.push(frame)
        pieces = [_NOTHING]
        with suppress(self._av.BlockingIOError, self._av.EOFError):
            while True:
                pieces.append(self._graph.pull().to_ndarray()[0])
        return np.concatenate(pieces)
