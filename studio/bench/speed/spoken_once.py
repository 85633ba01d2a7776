"""Speaks each text that comes on stdin, one a line, and tells how long its frames took.

``against`` runs this file in a process of its own, on whichever code its PYTHONPATH names: so it asks for nothing that
an earlier commit's engine lacks. Its argument is JSON: voices (a folder), voice (name:speaker), options.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

import studio
from studio.core.events import Audio, Failed, Ready
from studio.core.ports import SpeakRequest
from studio.engine.loop import LocalEngine, open_engine
from studio.text.normalise import best


def main() -> None:
    """Open the engine and say whose code it is; then answer each text with a line of JSON."""
    told = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    names = [told["voice"].partition(":")[0]]
    engine = open_engine(Path(told["voices"]), best(), device="cpu", voice_names=names, threads=1)
    print(json.dumps({"code": studio.__file__}), flush=True)
    request = SpeakRequest(voice=told["voice"], seed=0, options=told["options"])
    for line in sys.stdin:
        print(json.dumps(_spoken(engine, request, line.strip())), flush=True)
    engine.close()


def _spoken(engine: LocalEngine, request: SpeakRequest, text: str) -> dict[str, Any]:
    """Milliseconds from the whole text to its last sample, and how many frames that were."""
    began_s, samples, frame_samples = time.perf_counter(), 0, 1
    utterance = engine.open(request)
    utterance.push_text(text)
    utterance.end()
    for event in utterance.events():
        if isinstance(event, Audio):
            samples += len(event.pcm)
        elif isinstance(event, Ready):
            frame_samples = event.frame_samples
        elif isinstance(event, Failed):
            raise RuntimeError(event.message)
    return {"ms": 1000.0 * (time.perf_counter() - began_s), "frames": samples // frame_samples}


if __name__ == "__main__":
    main()
