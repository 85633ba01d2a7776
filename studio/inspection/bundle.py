"""Pack one utterance for its page: a JSON header, then sound, frames and p_eos as raw arrays.

Pitch and level are a separate bundle, since they take seconds to compute for ten minutes of speech.
"""

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from studio.core.errors import NeedsPackage
from studio.core.events import EOS_AT
from studio.core.traces.captions import SUFFIXES, cues, formatted
from studio.core.traces.teacher_forcing import TeacherForcingResult
from studio.core.traces.trace import Trace
from studio.inspection.facts import facts
from studio.inspection.timeline import Timeline, timeline
from studio.measure.prosody import prosody
from studio.measure.report import plain

_ALIGN = 4
_IN_TIMELINE = ("text", "heard_by", "words", "segments", "pauses")
_LEVELS = 16  # minimum number of levels of a channel


def pack(trace: Trace) -> bytes:
    """The format of ``widgets/timeline/bundle.js``: u32 length, header, then the arrays, aligned to four bytes.

    Raises BadFile: the trace has no timeline.
    """
    line = timeline(trace)
    arrays = {
        "pcm": ("i16", trace.pcm.astype("<i2", copy=False)),
        "frames": ("u8", trace.frames.astype(np.uint8, copy=False)),
        "p_eos": ("f32", trace.p_eos.astype("<f4", copy=False)),
    }
    return pack_arrays(_header(trace, line), arrays)


def pack_attention(scores: TeacherForcingResult, p_eos: np.ndarray) -> bytes:
    """Attention and likelihood of each frame in the same format: shares as 0 to 255, averaged over layers.

    Args:
        p_eos: of the trace, float32 [F]; the header has the largest difference from the recomputed values.
    """
    shares = np.clip(np.rint(255.0 * scores.shares), 0, 255).astype(np.uint8)
    header = {"what": scores.what, "columns": shares.shape[1], "difference": scores.difference(p_eos)}
    arrays = {
        "attention": ("u8", shares),
        "word": ("i32", scores.word.astype("<i4")),
        "likelihood": ("f32", scores.log_likelihood.astype("<f4")),
    }
    return pack_arrays(plain(header), arrays)


def pack_prosody(pcm: np.ndarray, rate_hz: int, max_s: float = math.inf) -> bytes:
    """Level and pitch in the same format; the header's ``lacks`` says why there is no pitch.

    Args:
        pcm: int16 [T].
        max_s: longer sounds get no pitch, which takes some seconds of CPU time per minute of sound.
    """
    is_short = len(pcm) <= max_s * rate_hz
    lacks = "" if is_short else f"The pitch of more than {max_s / 60:g} minutes is left out: studio measure has it."
    try:
        spoken = prosody(pcm, rate_hz, with_pitch=is_short)
    except NeedsPackage as error:
        spoken, lacks = prosody(pcm, rate_hz, with_pitch=False), str(error)
    header = {
        "step_samples": round(spoken.step_s * rate_hz),
        "active_db": spoken.active_db if np.isfinite(spoken.active_db) else None,
        "lacks": lacks,
    }
    arrays = {"level": ("f32", spoken.level_db.astype("<f4")), "pitch": ("f32", spoken.pitch_hz.astype("<f4"))}
    return pack_arrays(header, arrays)


def pack_arrays(facts: Mapping[str, Any], arrays: Mapping[str, tuple[str, np.ndarray]]) -> bytes:
    """A header with ``facts`` and the offset of each array, then the arrays by kind (``i16``, ``u8``, ``f32``)."""
    header = {**facts, "arrays": []}
    at = 0  # from the end of the header on
    body: list[bytes] = []
    for name, (kind, values) in arrays.items():
        header["arrays"].append({"name": name, "kind": kind, "at": at, "count": int(values.size)})
        body += [values.tobytes(), bytes(-values.nbytes % _ALIGN)]
        at += values.nbytes + len(body[-1])
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-(4 + len(text)) % _ALIGN)
    return b"".join([struct.pack("<I", len(text)), text, *body])


def _header(trace: Trace, line: Timeline) -> dict[str, Any]:
    figures = facts(trace, line)
    highest = int(trace.frames.max(initial=0))
    return {
        "facts": plain({name: value for name, value in figures.items() if name not in _IN_TIMELINE}),
        "timeline": {name: _plainly(value) for name, value in vars(line).items()},
        "frame_samples": plain(trace.meta.get("frame_samples", 0)),
        "channels": trace.frames.shape[1] if trace.frames.ndim == 2 else 0,
        "levels": max(_LEVELS, highest + 1),
        "eos_at": EOS_AT,
        "has_attention": "attention" in trace.layers,
        "captions": _captions(trace),
    }


def _captions(trace: Trace) -> dict[str, str] | None:
    """Caption files, in the time of the sound with its pauses, as the page plays it; None without word times."""
    captions = cues(trace, as_heard=True)
    return {suffix[1:]: formatted(captions, suffix) for suffix in SUFFIXES} if captions else None


def _plainly(value: Any) -> Any:
    """Dataclasses as dicts of finite numbers; ``asdict`` is too slow for long utterances."""
    return [vars(one) for one in value] if isinstance(value, tuple) else value
