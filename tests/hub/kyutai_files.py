"""A model as Kyutai publishes it: a tiny random one, with the published layout and names."""

import json
from pathlib import Path
from typing import Any

from tinyvoice import KYUTAI_VALUES, tiny_text_model, write_tiny_voice

MODEL, TEXT = "dsm_tts_1e68beda@240.safetensors", "tokenizer_spm_8k_en_fr_audio.model"
CODEC = "tokenizer-e351c8d8-checkpoint125.safetensors"
SPEAKERS_END = ".1e68beda@240.safetensors"  # of the files of its speakers
VALUES: dict[str, Any] = KYUTAI_VALUES | {
    "model_type": "tts",
    "model_id": {"sig": "1e68beda", "epoch": 240},
    "moshi_name": MODEL,
    "mimi_name": CODEC,
    "tokenizer_name": TEXT,
    "lm_gen_config": {"temp": 0.6},
}


def published_files(folder: Path) -> dict[str, bytes]:
    """The files of the model."""
    write_tiny_voice(folder, family="kyutai")
    return {
        "README.md": b"---\nlicense: cc-by-4.0\n---\n",
        "config.json": json.dumps(VALUES).encode(),
        MODEL: (folder / "tiny" / "kyutai.safetensors").read_bytes(),
        CODEC: (folder / "tiny" / "mimi.safetensors").read_bytes(),
        TEXT: tiny_text_model(),
    }
