"""What the page is given: a header, and the arrays at the places that it names."""

import json
import struct
import sys
from typing import Any

import numpy as np
import pytest
from inspection.spoken import RATE_HZ, pcm, trace

from studio.inspection.bundle import pack, pack_prosody
from studio.inspection.opening import recording_trace

KINDS = {"i16": "<i2", "u8": "u1", "f32": "<f4", "i32": "<i4"}


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    (length,) = struct.unpack_from("<I", data)
    header = json.loads(data[4 : 4 + length])
    arrays: dict[str, np.ndarray] = {}
    for one in header["arrays"]:
        at = 4 + length + one["at"]
        assert at % 4 == 0, "a browser reads arrays only where they are aligned"
        arrays[one["name"]] = np.frombuffer(data, KINDS[one["kind"]], one["count"], at)
    return header, arrays


def test_everything_comes_back() -> None:
    spoken = trace()
    header, arrays = unpack(pack(spoken))
    assert (arrays["pcm"] == spoken.pcm).all()
    assert (arrays["frames"].reshape(-1, header["channels"]) == spoken.frames).all()
    assert np.allclose(arrays["p_eos"], spoken.p_eos)
    assert (header["frame_samples"], header["levels"], header["eos_at"]) == (600, 16, 0.5)
    assert [word["heard_ms"] for word in header["timeline"]["words"]] == [600.0, 800.0, 875.0]
    assert header["timeline"]["pauses"][0]["reason"] == "text"
    assert not [name for name in header["timeline"] if name.startswith("_")]


def test_a_recording_has_sound_alone() -> None:
    header, arrays = unpack(pack(recording_trace(pcm(), RATE_HZ, "añb \u2028 c")))
    assert (arrays["pcm"] == pcm()).all() and not len(arrays["frames"])
    assert header["timeline"]["heard_by"] == "recording" and header["facts"]["ladder"] == {}


def test_level_and_pitch_come_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    time_s = np.arange(RATE_HZ) / RATE_HZ
    buzz = sum(np.sin(2 * np.pi * 150 * k * time_s) / k for k in range(1, 8))
    sound = recording_trace((5000 * np.asarray(buzz)).astype(np.int16), RATE_HZ, "")
    header, arrays = unpack(pack_prosody(sound.pcm, sound.rate_hz))
    assert (header["step_samples"], header["lacks"]) == (120, "")
    assert len(arrays["pitch"]) == len(arrays["level"]) == 200
    assert np.median(arrays["pitch"]) == pytest.approx(150, rel=0.01)
    assert header["active_db"] == pytest.approx(np.median(arrays["level"]), abs=1.0)
    header, arrays = unpack(pack_prosody(sound.pcm, sound.rate_hz, max_s=0.5))
    assert "left out" in header["lacks"] and len(arrays["level"]) == 200 and not len(arrays["pitch"])
    monkeypatch.setitem(sys.modules, "pyworld.pyworld", None)
    header, arrays = unpack(pack_prosody(sound.pcm, sound.rate_hz))
    assert "pip install" in header["lacks"] and len(arrays["level"]) == 200 and not len(arrays["pitch"])
