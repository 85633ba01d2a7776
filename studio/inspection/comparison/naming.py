"""How utterances are told from each other: by what differs in who spoke them, and how."""

from collections.abc import Mapping, Sequence
from typing import Any

from studio.core.events import Text
from studio.core.printable import printable
from studio.core.traces.trace import Trace

MAX_CHARS = 60
AT_ONCE_MS = 300.0  # a text whose pieces came within this was not typed
_KINDS = ("voice", "speaker", "family", "vocoder", "seed", "temperature", "device")


def labels(traces: Sequence[Trace]) -> list[str]:
    """A name for each: what not all have in common, else voice and speaker; ``recording`` where nothing is known.

    Those that are alike in all of that are told apart by how their text came.
    """
    told = [_told(trace.meta) for trace in traces]
    known = [one for one in told if one]
    names = dict.fromkeys(name for one in known for name in one)
    differing = [name for name in names if len({one[name] for one in known if name in one}) > 1]
    own = _own(known)
    found = [(_label(one, differing, own), _came(trace)) for one, trace in zip(told, traces, strict=True)]
    ways = {name: {came for other, came in found if other == name} for name, _ in found}
    return [f"{name}, {came}" if came and len(ways[name]) > 1 else name for name, came in found]


def _came(trace: Trace) -> str:
    """How the text of an utterance came; empty where that is not told, as of a recording."""
    times_ms = [event.t_ms for event in trace.events if isinstance(event, Text)]
    if not times_ms:
        return ""
    return "typed" if times_ms[-1] - times_ms[0] > AT_ONCE_MS else "text at once"


def _own(told: Sequence[Mapping[str, str]]) -> list[str]:
    """What each voice has for itself alone, so that the voice says it: its temperature, where all kept to that."""
    heat: dict[str, set[str]] = {}
    for one in told:
        heat.setdefault(one.get("voice", ""), set()).add(one.get("temperature", ""))
    return ["temperature"] if len(heat) > 1 and all(len(own) == 1 for own in heat.values()) else []


def _label(told: Mapping[str, str], differing: Sequence[str], own: Sequence[str]) -> str:
    if not told:
        return "recording"
    who = [told[name] for name in ("voice", "speaker") if name in differing and name in told]
    others = [name for name in differing if name not in ("voice", "speaker", "family", *own) and name in told]
    # "m=3" says what it is; a vocoder's name does, too
    parts = [":".join(who), *(told[name] if name == "vocoder" else f"{name}={told[name]}" for name in others)]
    found = " ".join(filter(None, parts)) or ":".join(told[name] for name in ("voice", "speaker") if name in told)
    return found if len(found) <= MAX_CHARS else f"{found[: MAX_CHARS - 1]}…"


def _told(meta: Mapping[str, Any]) -> dict[str, str]:
    """What a trace says of itself, as text; a trace may come from anywhere."""
    if meta.get("source") == "recording":
        return {}
    options = meta.get("options")
    named = {name: meta[name] for name in _KINDS if meta.get(name) not in (None, "")}
    named |= {name: value for name, value in options.items() if name not in named} if isinstance(options, dict) else {}
    return {printable(name, MAX_CHARS): printable(value, MAX_CHARS) for name, value in named.items()}
