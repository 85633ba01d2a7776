"""A tiny voice with random weights in its own folder."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from sentencepiece import SentencePieceTrainer
from torch import nn

from studio.core.cards import Card, sha256_of, write_card
from studio.core.kyutai import SPEAKER, TEXT, KyutaiSettings
from studio.engine.families.base import family_info
from studio.engine.families.common.rows import RowSetup
from studio.engine.families.dsm.model import Dsm, DsmConfig
from studio.engine.families.ist.model import Ist, IstConfig
from studio.engine.families.kyutai.config import KyutaiConfig
from studio.engine.families.kyutai.model import KyutaiLM
from studio.engine.families.richtts.model import RichTts, RichTtsConfig
from studio.engine.families.s5.model import S5, S5Config
from studio.engine.families.speakstream.model import SpeakStream, SpeakStreamConfig
from studio.engine.families.t5.model import T5, T5Config
from studio.engine.families.tacotron.model import Tacotron, TacotronConfig
from studio.engine.tokenizers import dmel
from studio.engine.tokenizers.formats import acoustic_tokenizer
from studio.engine.vocoders.mimi import Mimi
from studio.engine.vocoders.module import build_vocoder

# A byte-pair encoding of letters, marks and a few words.
WORDS = ["▁the", "▁morning", "▁light", "▁slowly", "▁over", "▁stone", "ing"]
LETTERS = [*"abcdefghijklmnopqrstuvwxyz'", "▁", *"?!.;:,"]
MERGES = [*dict.fromkeys((word[:end], word[end]) for word in WORDS for end in range(1, len(word)))]
BPE_SIZE = len({*LETTERS, *(a + b for a, b in MERGES)})


def write_tiny_bpe(path: Path, merges: list[tuple[str, str]] = MERGES) -> None:
    """The encoding in the `tokenizers` format."""
    pieces = dict.fromkeys([*LETTERS, *(a + b for a, b in merges)])
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    model = {"type": "BPE", "vocab": vocabulary, "merges": [[*pair] for pair in merges]}
    path.write_text(json.dumps({"version": "1.0", "model": model}), encoding="utf-8")


ORACLES = Path(__file__).parent / "oracles"
_TOKENS = 48
KYUTAI_VALUES: dict[str, Any] = {
    **json.loads((ORACLES / "kyutai_lm" / "tiny.json").read_text()),
    "text_card": _TOKENS,
    "card": 16,
    "context": 40,
    "tokenizer_name": "tokenizer_spm_8k_en_fr_audio.model",
    "tts_config": {"audio_delay": 0.33, "second_stream_ahead": 2},
}
# The same model without conditions, whose voice is an audio prefix.
KYUTAI_PREFIXED_VALUES: dict[str, Any] = KYUTAI_VALUES | {
    **json.loads((ORACLES / "kyutai_prefixed" / "tiny.json").read_text()),
    **{name: KYUTAI_VALUES[name] for name in ("text_card", "card", "context")},
}
PREFIXED = "kyutai-prefixed"  # a name for ``write_tiny_voice``; the family is kyutai


def tiny_text_model() -> bytes:
    """A SentencePiece model of all letters and marks, with the ids of Kyutai's."""
    model, letters = io.BytesIO(), "".join(one for one in LETTERS if one != "▁")
    SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(letters), "the morning light came in slowly over the old stone wall"] * 20),
        model_writer=model,
        vocab_size=_TOKENS,
        pad_id=3,
        model_type="bpe",
        minloglevel=2,
    )
    return model.getvalue()


VOCODERS: dict[str, dict[str, Any]] = {
    "mimi": {
        "channels": 4,
        "codebook_size": 16,
        "codebook_width": 8,
        "width": 16,
        "filters": 2,
        "layers": 1,
        "heads": 2,
        "feed_width": 24,
        "window_tokens": 16,
    },
    "hifigan": {"width": 16, "upsampling": (10, 10, 6), "kernels": (3,), "dilations": (1,), "overlap_frames": 4},
    "sourcefilter": {"width": 32, "blocks": 2, "fine_width": 16, "fine_blocks": 1},
    "vocstream": {
        "upsampler_width": 8,
        "upsampler_layers": 2,
        "generator_width": 8,
        "generator_layers": 2,
        "samples_per_step": 10,
    },
}


def row_setup(options: Mapping[str, Any], slots: tuple[int, ...] = (5,), speaker: int = 1) -> RowSetup:
    """Arguments of a row without a net."""
    return RowSetup(slots, dmel.TIME_BASE, speaker, options, 0.5, 9)


def _draw(heads: Sequence[nn.Linear], stacks: Sequence[nn.Module], end: nn.Linear, end_bias: float) -> None:
    """Random weights that vary the output; ``end_bias`` sets how often segments end."""
    with torch.no_grad():
        for stack in stacks:
            for parameter in stack.parameters():
                if parameter.ndim == 2:
                    parameter.normal_(std=0.15)
        for head in heads:
            head.weight.normal_(std=0.3)
        end.weight.normal_(std=0.4)
        end.bias.fill_(end_bias)


def _speakstream(eos_bias: float) -> SpeakStream:
    net = SpeakStream(SpeakStreamConfig(2, 64, 2, 128, 2, longest_word_frames=12, context_frames=60, kept_frames=30))
    _draw([net.levels_out], [net.decoder], net.eos_out, eos_bias)
    net.silence.fill_(3)
    return net


def _richtts(eos_bias: float) -> RichTts:
    net = RichTts(RichTtsConfig(2, 64, 2, 128, 2, longest_word_frames=12))
    _draw([net.levels_out], [net.decoder], net.eos_out, eos_bias)
    net.silence.fill_(3)
    return net


def _s5(eos_bias: float) -> S5:
    net = S5(S5Config(2, 2, 64, 2, 128, 2, longest_word_frames=12, context_frames=60, kept_frames=30))
    _draw([net.levels_out], [net.encoder, net.decoder, net.cross], net.stop_out, eos_bias)
    net.silence.fill_(3)
    return net


def _t5(eos_bias: float) -> T5:
    net = T5(T5Config(2, 2, 64, 2, 128, 2, longest_word_frames=12))
    _draw([net.levels_out], [net.encoder, net.decoder, net.cross], net.stop_out, eos_bias)
    with torch.no_grad():  # the output varies little over the text: let the bias decide
        net.stop_out.weight.mul_(0.175)
    net.silence.fill_(3)
    return net


def _ist(eos_bias: float) -> Ist:
    sizes = {"context_frames": 60, "longest_word_frames": 12, "stretch_words": 6}
    net = Ist(IstConfig(2, 64, 2, 128, BPE_SIZE, 2, prompt_frames=12, prompt_tokens=8, **sizes))
    _draw([net.levels_out], [net.decoder], net.eos_out, eos_bias)
    for speaker, (text, frames) in enumerate([([4, 5, 6], 9), ([7, 8], 7)]):
        net.set_prompt(speaker, text, torch.randint(0, dmel.LEVELS, (frames, dmel.CHANNELS)))
    return net


def _dsm(eos_bias: float, **sizes: Any) -> Dsm:
    limits = {"context_frames": 60, "longest_word_frames": 12, "tail_frames": 2, "extract_frames": 12}
    delays = {"delay_s": 0.15, "acoustic_delay_frames": 2}
    net = Dsm(DsmConfig(2, 64, 2, 128, 1, 32, 2, 64, BPE_SIZE, 2, encoder_width=16, **{**limits, **delays, **sizes}))
    _draw(net.depth.heads(), [net.decoder, net.cross, net.depth], net.action_out, eos_bias)
    for speaker, frames in enumerate((9, 12)):
        net.set_extract(speaker, torch.randint(0, dmel.LEVELS, (frames, dmel.CHANNELS)))
    net.silence.fill_(3)
    return net


def _kyutai(eos_bias: float, values: Mapping[str, Any] = KYUTAI_VALUES) -> KyutaiLM:
    net = KyutaiLM(KyutaiConfig.read_published(values))
    with torch.no_grad():
        for name, one in net.state_dict().items():
            one.add_(torch.randn_like(one) * (0.2 if "norm" in name else 0.15))
        net.text_linear.weight[0] *= -5  # beginnings of words are probable at some steps
        net.text_linear.weight[1:] *= 0.3
    return net


def _tacotron(eos_bias: float) -> Tacotron:
    net = Tacotron(TacotronConfig(32, 48, 16, 16, 64, 2, location_filters=4, location_kernel=7, longest_word_frames=12))
    lstms = [net.encoder.lstm, net.attention_lstm, net.decoder_lstm]
    _draw([net.levels_out], [*lstms, net.attention], net.stop_out, eos_bias - 1.0)  # its threshold is 0.5
    with torch.no_grad():
        for table in (net.symbol, net.stress, net.prosody):  # otherwise only the symbols decide where a clause ends
            table.weight.mul_(0.3)
        for one, std in ((net.levels_out, 0.15), (net.stop_out, 0.15), (net.decoder_lstm, 0.5)):
            for parameter in one.parameters():
                if parameter.ndim == 2:
                    parameter.normal_(std=std)
    net.silence.fill_(3)
    return net


@dataclass(frozen=True)
class TinyFamily:
    """What the tests of every family need to know of one. A new family gets one entry in ``FAMILIES``.

    Attributes:
        net: makes a tiny net; the bias sets how soon segments end.
        window: options with which the first word waits for so many words, 1 to 5, or nearly so.
        settings: options for the laws, beside the bounds of each option.
        decode: the module that runs for every frame, or chunk of frames.
        first_window: the words that are seen before the first sound, and those spoken then, by options; None where
            words alone do not decide that.
        clauses: options for short clauses, each of which needs all its words (see ``Segment.seen``), and its
            look-ahead in words; None for a family that does not speak by clauses.
        by_ratio: text and speech alternate at a fixed ratio: a word starts at once, and its end needs more text.
        delayed: speech follows text by a delay, in which more words are fed: see ``Segment.seen``.
        revises: whether text that was not played can be revised.
        pronounces: whether it reads phonemes.
        leaves_early: rows leave a batch early: only longer texts let them meet.
    """

    net: Callable[[float], nn.Module]
    window: Callable[[int], dict[str, Any]]
    settings: tuple[dict[str, Any], ...] = ()
    decode: str = "decode"
    first_window: Callable[[Mapping[str, Any]], tuple[int, int]] | None = None
    clauses: tuple[dict[str, Any], int] | None = None
    by_ratio: bool = False
    delayed: bool = False
    revises: bool = True
    pronounces: bool = False
    leaves_early: bool = False


RATIOS = {1: "1:2", 2: "1:4", 3: "3:9", 4: "12:24", 5: "6:12"}
FAMILIES: dict[str, TinyFamily] = {
    "speakstream": TinyFamily(
        _speakstream,
        window=lambda words: {"m": words, "n": 1},
        settings=({"m": 5, "n": 2}, {"scheme": "S2"}, {"scheme": "S2", "m": 4, "n": 3}),
        first_window=lambda options: (options.get("m", 3), options.get("n", 1)),
    ),
    "richtts": TinyFamily(
        _richtts,
        window=lambda words: {"mode": "ngram", "n": words},
        settings=tuple({"mode": "ngram", "n": n} for n in (1, 4)),
        clauses=({"mode": "ngram", "n": 2}, 1),
    ),
    "ngram-richtts": TinyFamily(_richtts, window=lambda words: {"n": words}, clauses=({"n": 2}, 1)),
    "s5": TinyFamily(
        _s5,
        window=lambda words: {"k": min(max(words - 1, 1), 3)},
        settings=({"k": 1}, {"k": 2}, {"k": 3}),
        first_window=lambda options: (options["k"] + 1, 1),
        pronounces=True,
    ),
    "t5": TinyFamily(
        _t5,
        window=lambda words: {"sentence_words": words, "chunk_frames": 4},
        settings=({"sentence_words": 2, "chunk_frames": 1}, {"sentence_words": 4, "chunk_frames": 60}),
        first_window=lambda options: (options["sentence_words"],) * 2,
        clauses=({"sentence_words": 2}, 1),
        pronounces=True,
    ),
    "ist": TinyFamily(
        _ist,
        window=lambda words: {"ratio": RATIOS[words]},  # counts tokens instead
        settings=tuple({"ratio": ratio} for ratio in ("1:3", "3:9")),
        by_ratio=True,
    ),
    "dsm": TinyFamily(
        _dsm,
        window=lambda words: {"guidance": 1.5 if words % 3 == 0 else 1.0},  # two words ahead in any case
        settings=({"guidance": 2.0},),
        delayed=True,
    ),
    "kyutai": TinyFamily(
        _kyutai,
        window=lambda words: {"padding": words % 3},  # two words ahead in any case
        settings=({"padding": 3, "cfg": "1.5"},),
        decode="step",
        delayed=True,
        revises=False,
    ),
    "tacotron": TinyFamily(
        _tacotron,
        window=lambda words: {"clause_words": words, "chunk_frames": 4},
        settings=(
            {"clause_words": 3},
            {"clause_words": 1, "chunk_frames": 4},
            {"clause_words": 20, "chunk_frames": 32},
        ),
        first_window=lambda options: (min(options["clause_words"], 5),) * 2,  # of the text, whose comma ends a clause
        clauses=({"clause_words": 2}, 1),
        pronounces=True,
        leaves_early=True,
    ),
}
NETS = {name: one.net for name, one in FAMILIES.items()}
NETS[PREFIXED] = partial(_kyutai, values=KYUTAI_PREFIXED_VALUES)


def write_tiny_voice(
    root: Path,
    vocoder: str = "",
    eos_bias: float = -1.5,
    speakers: tuple[str, str] = ("one", "two"),
    number_format: str = "float32",
    family: str = "speakstream",
) -> Path:
    """Write the voice ``tiny`` into a folder of voices; ``eos_bias`` sets how soon segments end."""
    torch.manual_seed(7)
    assert family in NETS, f"the tests know no family {family!r}: give it an entry in FAMILIES of tests/tinyvoice.py"
    net, values = NETS[family](eos_bias), KYUTAI_PREFIXED_VALUES if family == PREFIXED else KYUTAI_VALUES
    family = "kyutai" if family == PREFIXED else family
    vocoder = vocoder or ("mimi" if family == "kyutai" else "sourcefilter")
    voice = build_vocoder(vocoder, VOCODERS[vocoder])
    if isinstance(voice, Mimi):
        voice.load_state_dict({name: torch.randn_like(one) * 0.08 for name, one in voice.state_dict().items()})
    folder = root / "tiny"
    folder.mkdir(parents=True, exist_ok=True)
    files = {f"{family}.safetensors": net.state_dict(), f"{vocoder}.safetensors": voice.state_dict()}
    for file, tensors in files.items():
        save_file({k: v.contiguous() for k, v in tensors.items()}, folder / file)
    if family in ("ist", "dsm"):
        write_tiny_bpe(folder / "bpe.json")
    config, alphabet, options = net.config.to_dict(), dmel.ALPHABET, family_info(family).options
    if family == "kyutai":
        settings = KyutaiSettings.read(values)
        config, alphabet, options = values, "mimi-4x16", settings.options()
        (folder / TEXT).write_bytes(tiny_text_model())
        for number in range(len(speakers)):
            codes = torch.randint(16, (4, 14 + 6 * number), dtype=torch.int32)
            voice_of = {"codes": codes} if settings.is_prefixed else {"speaker_wavs": torch.randn(1, 6, 3)}
            save_file(voice_of, folder / SPEAKER.format(number))
    base = acoustic_tokenizer(alphabet).time_base
    card = Card(
        name="tiny",
        family=family,
        vocoder=vocoder,
        title="Random weights",
        config=config,
        vocoders={vocoder: voice.plain_config()},
        alphabet=alphabet,
        sample_rate_hz=base.rate_hz,
        frame_samples=base.frame_samples,
        phase=base.phase,
        speakers=speakers,
        temperature=0.7,
        look_ahead_words=2,
        delay_frames=0,
        options=options,
        licence="Apache-2.0",
        learned_from="nothing",
        parameters={family: sum(p.numel() for p in net.parameters()), vocoder: voice.parameter_count()},
        sha256={path.name: sha256_of(path) for path in folder.iterdir() if path.name != "card.json"},
        number_format=number_format,
    )
    write_card(folder, card)
    return folder
