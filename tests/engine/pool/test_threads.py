"""What speech takes of a process's threads it gives back."""

import json
import subprocess
import sys
from pathlib import Path

from tinyvoice import write_tiny_voice

TOLD = """
import json, sys, torch
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

def threads():
    return [torch.get_num_threads(), *{one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}]

threadpool_limits(2, user_api="blas")
torch.set_num_threads(2)
import studio
from pathlib import Path
from studio.engine.loop import open_engine
from studio.text.normalise import best
told = [threads()]
studio.synthesize("one two three", voices=sys.argv[1], m=2)
told.append(threads())
engines = [open_engine(Path(sys.argv[1]), best(), device="cpu") for _ in range(2)]
for engine in engines:
    engine.voice("tiny")
told.append(threads())
for engine in engines:
    engine.close()
    told.append(threads())
print(json.dumps(told))
"""


def test_speaking_gives_a_process_its_threads_back(tmp_path: Path) -> None:
    write_tiny_voice(tmp_path)
    run = subprocess.run([sys.executable, "-c", TOLD, str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    before, after, two_speak, one_speaks, none_speaks = json.loads(run.stdout)
    assert before == after == none_speaks == [2, 2]
    assert two_speak[1] == one_speaks[1] == 1, "the engine that is left rounds as before"
