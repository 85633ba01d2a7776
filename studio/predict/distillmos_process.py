"""The DistillMOS process: sounds on stdin (``distillmos.HEADER``), one line of JSON per sound on stdout.

The first line is the provenance. The process ends with stdin.
"""

import importlib.metadata
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import torch
from distillmos.sqa import DEFAULT_WEIGHTS_CHKPT, ConvTransformerSQAModel

from studio.core.cards import sha256_of
from studio.core.clips import to_float
from studio.predict.distillmos import HEADER


@torch.inference_mode()
def main() -> None:
    """Score sounds until stdin ends."""
    torch.set_num_threads(int(sys.argv[1]))
    with redirect_stdout(sys.stderr):  # it prints the path of its weights
        model = ConvTransformerSQAModel().eval()
    version = importlib.metadata.version("distillmos")
    _write({"name": "DistillMOS", "version": version, "sha256": sha256_of(Path(DEFAULT_WEIGHTS_CHKPT))})
    while header := sys.stdin.buffer.read(HEADER.size):
        (samples,) = HEADER.unpack(header)
        pcm = np.frombuffer(sys.stdin.buffer.read(2 * samples), "<i2")
        score = model(torch.from_numpy(to_float(pcm)).unsqueeze(0)).item()
        _write({"mos": round(score, 4)})


def _write(answer: dict[str, object]) -> None:
    print(json.dumps(answer), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
