"""What the server does not keep: memory of large blocks that were freed."""

import subprocess
import sys

from needs import needs

# Bodies as uploads have them: pieces that are joined and pickled, in several threads, and small objects that stay.
UPLOADS = """
import pickle, threading
from studio.serve.server import return_freed_blocks

def resident_mib():
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmRSS")).split()[1]) / 1024

def upload():
    body = b"".join([bytes(65_536) for _ in range(440)])
    assert len(pickle.dumps(body)) > len(body)
    kept.append([bytes(100) for _ in range(50)])

kept = []
return_freed_blocks()
before_mib = resident_mib()
for _ in range(5):
    threads = [threading.Thread(target=upload) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(resident_mib() - before_mib)
"""


def test_freed_blocks_are_returned() -> None:
    needs(sys.platform == "linux", "glibc")
    done = subprocess.run([sys.executable, "-c", UPLOADS], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 20.0, "MiB: less than a body of 28 MiB; without it 50 MiB stay"
