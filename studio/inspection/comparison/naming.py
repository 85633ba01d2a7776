"""Labels of compared utterances, by what differs between them."""

from collections.abc import Mapping, Sequence
from typing import Any

from studio.core.checks import to_printable
from studio.core.events import TextReceived
from studio.core.traces.trace import Trace

MAX_CHARS = 60
AT_ONCE_MS = 300.0  # a text that arrived within this time was not typed
_KINDS = ("voice", "speaker", "family", "vocoder", "seed", "temperature", "device")


def labels(traces: Sequence[Trace]) -> list[str]:
    """A label for each: the values that differ, else voice and speaker; ``recording`` where nothing is known.

    Equal labels are distinguished by how the text arrived.
    """
    metadata = [_metadata(trace.meta) for trace in traces]
    known = [one for one in metadata if one]
    names = dict.fromkeys(name for one in known for name in one)
    differing = [name for name in names if len({one[name] for one in known if name in one}) > 1]
    own = _by_voice(known)
    found = [(_label(one, differing, own), _arrival(trace)) for one, trace in zip(metadata, traces, strict=True)]
    ways = {name: {arrival for other, arrival in found if other == name} for name, _ in found}
    return [f"{name}, {arrival}" if arrival and len(ways[name]) > 1 else name for name, arrival in found]


def _arrival(trace: Trace) -> str:
    """How the text arrived; empty for a recording."""
    times_ms = [event.t_ms for event in trace.events if isinstance(event, TextReceived)]
    if not times_ms:
        return ""
    return "typed" if times_ms[-1] - times_ms[0] > AT_ONCE_MS else "text at once"


def _by_voice(metadata: Sequence[Mapping[str, str]]) -> list[str]:
    """Values determined by the voice: its temperature, where each voice has only one."""
    temperatures: dict[str, set[str]] = {}
    for one in metadata:
        temperatures.setdefault(one.get("voice", ""), set()).add(one.get("temperature", ""))
    return ["temperature"] if len(temperatures) > 1 and all(len(own) == 1 for own in temperatures.values()) else []


def _label(metadata: Mapping[str, str], differing: Sequence[str], own: Sequence[str]) -> str:
    if not metadata:
        return "recording"
    who = [metadata[name] for name in ("voice", "speaker") if name in differing and name in metadata]
    others = [name for name in differing if name not in ("voice", "speaker", "family", *own) and name in metadata]
    # a vocoder's name needs no key
    parts = [":".join(who), *(metadata[name] if name == "vocoder" else f"{name}={metadata[name]}" for name in others)]
    found = " ".join(filter(None, parts)) or ":".join(
        metadata[name] for name in ("voice", "speaker") if name in metadata
    )
    return found if len(found) <= MAX_CHARS else f"{found[: MAX_CHARS - 1]}…"


def _metadata(meta: Mapping[str, Any]) -> dict[str, str]:
    """A trace's metadata as printable text."""
    if meta.get("source") == "recording":
        return {}
    options = meta.get("options")
    named = {name: meta[name] for name in _KINDS if meta.get(name) not in (None, "")}
    named |= {name: value for name, value in options.items() if name not in named} if isinstance(options, dict) else {}
    return {to_printable(name, MAX_CHARS): to_printable(value, MAX_CHARS) for name, value in named.items()}
