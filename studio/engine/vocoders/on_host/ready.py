"""Which vocoders run in numpy on a CPU."""

from typing import Any

from studio.engine.vocoders.base import Vocoder
from studio.engine.vocoders.on_host.sourcefilter import SourceFilterOnHost
from studio.engine.vocoders.on_host.sourcevocos import SourceVocosOnHost
from studio.engine.vocoders.sourcefilter import SourceFilter
from studio.engine.vocoders.sourcevocos import SourceVocos


def made_ready(vocoder: Vocoder[Any]) -> SourceFilterOnHost | None:
    """A trained vocoder for a CPU; None where torch runs it there too."""
    if isinstance(vocoder, SourceVocos):
        return SourceVocosOnHost(vocoder)
    return SourceFilterOnHost(vocoder) if type(vocoder) is SourceFilter else None
