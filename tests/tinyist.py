"""A tiny voice of IST-LM with random weights: every mechanism of the family, none of its learning."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tinyvoice import VOCODERS

from studio.core.cards import Card, sha256_of, write_card
from studio.engine import dmel
from studio.engine.families.ist.net import Config, Ist
from studio.engine.families.ist.rule import OPTION_SPECS
from studio.engine.vocoders.registry import build_vocoder

MERGES = [tuple(pair.split()) for pair in "t h,th e,▁ the,i n,in g,o n,▁ s,o l,ol d".split(",")]


def write_tiny_bpe(path: Path, merges: list[tuple[str, ...]] = MERGES) -> int:
    """Letters, marks and a few merges, as the `tokenizers` library writes them; answers how many tokens."""
    pieces = [*"abcdefghijklmnopqrstuvwxyz'", "▁", *"?!.;:,", *("".join(pair) for pair in merges)]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    model = {"type": "BPE", "vocab": vocabulary, "merges": [[*pair] for pair in merges]}
    path.write_text(json.dumps({"version": "1.0", "model": model}), encoding="utf-8")
    return len(vocabulary)


def write_tiny_ist(root: Path, eos_bias: float = -1.5, number_format: str = "float32", name: str = "tiny") -> Path:
    """Make the voice in a folder of voices; ``eos_bias`` decides how soon stretches end."""
    torch.manual_seed(7)
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    config = Config(
        2,
        64,
        2,
        128,
        write_tiny_bpe(folder / "bpe.json"),
        prompt_words=[["good", "morning."], ["the", "rain"]],
        prompt_frames=[9, 7],
        context_frames=60,
        longest_word_frames=12,
        stretch_words=6,
    )
    net = Ist(config)
    with torch.no_grad():
        for parameter in net.decoder.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=0.15)
        net.levels_out.weight.normal_(std=0.3)
        net.eos_out.weight.normal_(std=0.4)
        net.eos_out.bias.fill_(eos_bias)
        net.prompt.copy_(torch.randint(0, dmel.LEVELS, net.prompt.shape))
    voice = build_vocoder("sourcefilter", VOCODERS["sourcefilter"])
    files = {"ist.safetensors": net.state_dict(), "sourcefilter.safetensors": voice.state_dict()}
    for file, tensors in files.items():
        save_file({k: v.contiguous() for k, v in tensors.items()}, folder / file)
    base = dmel.TIME_BASE
    card = Card(
        name=name,
        family="ist",
        vocoder="sourcefilter",
        title="Random weights of IST-LM",
        config=config.to_dict(),
        vocoders={"sourcefilter": voice.plain_config()},
        alphabet=dmel.ALPHABET,
        sample_rate_hz=base.rate_hz,
        frame_samples=base.frame_samples,
        phase=base.phase,
        speakers=("one", "two"),
        temperature=0.7,
        look_ahead_words=0,
        delay_frames=0,
        options=OPTION_SPECS,
        licence="Apache-2.0",
        learned_from="nothing",
        parameters={"ist": sum(p.numel() for p in net.parameters()), "sourcefilter": voice.parameter_count()},
        sha256={file: sha256_of(folder / file) for file in (*files, "bpe.json")},
        number_format=number_format,
    )
    write_card(folder, card)
    return folder
