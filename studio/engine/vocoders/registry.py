"""Registry of vocoders."""

from collections.abc import Mapping
from typing import Any

from studio.core.errors import BadVoice
from studio.engine.vocoders.base import Vocoder
from studio.engine.vocoders.hifigan import HifiGan
from studio.engine.vocoders.sourcefilter import SourceFilter
from studio.engine.vocoders.sourcevocos import SourceVocos
from studio.engine.vocoders.vocstream import VocStream

VOCODERS: dict[str, type[Vocoder[Any]]] = {kind.name: kind for kind in (HifiGan, SourceFilter, SourceVocos, VocStream)}


def build_vocoder(name: str, config: Mapping[str, Any]) -> Vocoder[Any]:
    """A vocoder by its name on a card, with fresh weights. Raises BadVoice: unknown name or configuration."""
    if name not in VOCODERS:
        raise BadVoice(f"there is no vocoder {name!r}", f"there are {', '.join(sorted(VOCODERS))}")
    return VOCODERS[name].from_config(config)
