"""A voice of random weights, small enough to speak a sentence in a moment: the commands' way through it is real."""

from pathlib import Path

import torch
from safetensors.torch import save_file

from studio.core.cards import Card, sha256_of, write_card
from studio.engine import dmel
from studio.engine.families.speakstream import OPTION_SPECS, Config, SpeakStream
from studio.engine.vocoders.registry import build_vocoder

SPEAKERS = ("slt", "rms")


def write_tiny_voice(voices: Path) -> Path:
    """Make the voice ``tiny`` under a folder of voices; every segment is cut after a few frames."""
    folder = voices / "tiny"
    folder.mkdir(parents=True)
    torch.manual_seed(0)
    config = Config(1, 32, 2, 64, len(SPEAKERS), context_frames=200, kept_frames=100, longest_word_frames=8)
    net = SpeakStream(config)
    net.get_buffer("silence").fill_(4)
    vocoder = build_vocoder("sourcefilter", {"width": 16, "blocks": 1, "fine_width": 16, "fine_blocks": 1})
    save_file(net.state_dict(), folder / "speakstream.safetensors")
    save_file(vocoder.state_dict(), folder / "sourcefilter.safetensors")
    base = dmel.TIME_BASE
    card = Card(
        name="tiny",
        family="speakstream",
        vocoder="sourcefilter",
        title="Tiny",
        config=config.to_dict(),
        vocoders={"sourcefilter": vocoder.plain_config()},
        alphabet=dmel.ALPHABET,
        sample_rate_hz=base.rate_hz,
        frame_samples=base.frame_samples,
        phase=base.phase,
        speakers=SPEAKERS,
        temperature=0.6,
        look_ahead_words=2,
        delay_frames=0,
        options=OPTION_SPECS,
        licence="Apache-2.0",
        learned_from="nothing",
        parameters={},
        sha256={path.name: sha256_of(path) for path in sorted(folder.glob("*.safetensors"))},
    )
    write_card(folder, card)
    return voices
