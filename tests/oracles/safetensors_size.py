"""Size of a safetensors file, from the names and shapes that it holds."""

import json
import math
from collections.abc import Mapping, Sequence

_BYTES = {"F32": 4, "BF16": 2}


def file_bytes(shapes: Mapping[str, Sequence[int]], dtypes: Mapping[str, str]) -> int:
    """As the safetensors package writes it, without metadata: the larger numbers first, then by name.

    The header has every name, so that the size tells whether names have the right length, too.
    """
    header, end = {}, 0
    for name in sorted(shapes, key=lambda name: (-_BYTES[dtypes[name]], name)):
        begin, end = end, end + _BYTES[dtypes[name]] * math.prod(shapes[name])
        header[name] = {"dtype": dtypes[name], "shape": list(shapes[name]), "data_offsets": [begin, end]}
    written = len(json.dumps(header, separators=(",", ":")))
    return 8 + math.ceil(written / 8) * 8 + end
