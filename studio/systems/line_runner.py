"""Runs a function of another environment as a program of the line protocol; needs only the standard library.

``python line_runner.py MODULE:FUNCTION``: the function gets an iterator of texts (an empty one is a flush) and the name
of a speaker. It yields sound: bytes or arrays of int16, mono, at its attribute ``rate_hz`` (default 24,000). It may
also yield word times: dicts ``{"char_start", "char_end", "start_s", "end_s"}``.
"""

import importlib
import json
import os
import sys
from typing import Any


def main() -> None:
    """Speak one utterance after the other, until the input ends."""
    sys.path[0] = ""  # the working folder; modules beside this file could hide the function's
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries that print must not write into the sound

    def send(message, data=b""):
        out.write(json.dumps(message).encode() + b"\n" + data)
        out.flush()

    module, _, name = sys.argv[1].partition(":")
    function: Any = importlib.import_module(module)
    for part in name.split("."):
        function = getattr(function, part)
    send({"type": "ready", "rate_hz": int(getattr(function, "rate_hz", 24000))})
    while line := sys.stdin.buffer.readline():
        message = json.loads(line)
        if message["type"] != "start":
            continue
        texts = _texts()
        for one in function(texts, message["speaker"]):
            if isinstance(one, dict):
                send({"type": "word", **one})
            else:
                data = bytes(one) if isinstance(one, bytes | bytearray) else one.tobytes()
                send({"type": "audio", "bytes": len(data)}, data)
        for _ in texts:
            pass  # texts that the function did not read
        send({"type": "end"})


def _texts():
    """The texts of one utterance."""
    while line := sys.stdin.buffer.readline():
        message = json.loads(line)
        if message["type"] == "end":
            return
        yield message.get("text", "")


if __name__ == "__main__":
    main()
