"""A byte-pair encoding of letters, marks and a few words."""

import json
from pathlib import Path

WORDS = ["▁the", "▁morning", "▁light", "▁slowly", "▁over", "▁stone", "ing"]
LETTERS = [*"abcdefghijklmnopqrstuvwxyz'", "▁", *"?!.;:,"]
MERGES = [*dict.fromkeys((word[:end], word[end]) for word in WORDS for end in range(1, len(word)))]
BPE_SIZE = len({*LETTERS, *(a + b for a, b in MERGES)})


def write_tiny_bpe(path: Path, merges: list[tuple[str, str]] = MERGES) -> None:
    """The encoding as the `tokenizers` library writes it."""
    pieces = dict.fromkeys([*LETTERS, *(a + b for a, b in merges)])
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    model = {"type": "BPE", "vocab": vocabulary, "merges": [[*pair] for pair in merges]}
    path.write_text(json.dumps({"version": "1.0", "model": model}), encoding="utf-8")
