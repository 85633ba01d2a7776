"""A folder as Kyutai publishes it: ``config.json``, the language model, Mimi and the text tokenizer."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from studio.core.checks import is_number, to_printable
from studio.core.errors import BadVoice
from studio.core.files import MAX_SETTINGS_BYTES, read_bounded
from studio.engine.families.kyutai.config import KyutaiConfig
from studio.engine.families.kyutai.model import KyutaiLM, load_kyutai_lm
from studio.engine.families.kyutai.policy import KyutaiPolicy
from studio.engine.families.kyutai.stream import Choose, KyutaiStream
from studio.engine.families.kyutai.text import KyutaiText
from studio.engine.families.kyutai.voices import read_labels, read_speakers
from studio.engine.tokenizers.mimi import FRAMES_PER_S

_DO = "give a folder with the files of kyutai/tts-1.6b-en_fr"
_FILE_NAME = re.compile(r"\w[\w@.-]{0,99}")  # without a path
_LONGEST_DELAY_S, _LONGEST_LOOK_AHEAD = 10.0, 20


@dataclass(frozen=True)
class KyutaiCheckpoint:
    """A text-to-speech model, ready to speak.

    Attributes:
        net, text: the language model and its text tokens.
        mimi_path: weights of the codec that turns frames into samples.
        delay_steps: of the audio behind the text.
        look_ahead: words in the second text stream.
        values: the content of ``config.json``.
    """

    net: KyutaiLM
    text: KyutaiText
    mimi_path: Path
    delay_steps: int
    look_ahead: int
    values: Mapping[str, Any]

    @torch.inference_mode()
    def begin(
        self, speakers: Sequence[Path], choose: Choose, guidance: float | None = None
    ) -> tuple[KyutaiStream, KyutaiPolicy]:
        """A new utterance, to step, and its text, to commit the tokens of ``text.encode`` to.

        Raises:
            BadOption, BadVoice: see ``read_speakers`` and ``read_labels``.
        """
        c, first = self.net.config, next(self.net.parameters())
        vectors, present = read_speakers(speakers, c.speaker_width)
        labels = {name: one.to(first.device) for name, one in read_labels(self.values, guidance).items()}
        state = self.net.begin(vectors.to(first), present.to(first.device), labels)
        policy = KyutaiPolicy(c.text_card + 1, look_ahead=self.look_ahead)
        return KyutaiStream(self.net, state, policy, delay_steps=self.delay_steps, choose=choose), policy


def open_checkpoint(
    folder: Path, device: torch.device | str = "cpu", dtype: torch.dtype = torch.bfloat16
) -> KyutaiCheckpoint:
    """Load a published folder.

    Raises:
        BadVoice: a file is missing, damaged, or of another kind of model.
        NeedsPackage: sentencepiece is not installed.
    """
    values = _read_values(folder / "config.json")
    config, found = KyutaiConfig.read_published(values), values.get("tts_config")
    about: dict[str, Any] = found if isinstance(found, dict) else {}
    delay_s: Any = about.get("audio_delay")
    look_ahead: Any = about.get("second_stream_ahead", 0)
    if not is_number(delay_s) or not 0 <= delay_s <= _LONGEST_DELAY_S:
        raise BadVoice(f"audio_delay in {folder / 'config.json'} is no time up to {_LONGEST_DELAY_S} s", _DO)
    if type(look_ahead) is not int or not 0 <= look_ahead <= _LONGEST_LOOK_AHEAD:
        raise BadVoice(f"second_stream_ahead is no number of words up to {_LONGEST_LOOK_AHEAD}", _DO)
    if config.demux_second_stream != bool(look_ahead):
        raise BadVoice("second_stream_ahead and demux_second_stream contradict each other", _DO)
    text = KyutaiText(_file(folder, values, "tokenizer_name"), config.text_card)
    net = load_kyutai_lm(_file(folder, values, "moshi_name"), config, dtype).to(device)
    mimi_path = _file(folder, values, "mimi_name")
    return KyutaiCheckpoint(net, text, mimi_path, int(delay_s * FRAMES_PER_S), look_ahead, values)


def _read_values(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(read_bounded(path, MAX_SETTINGS_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise BadVoice(f"{path} cannot be read: {error!s:.200}", _DO) from error
    if not isinstance(values, dict):
        raise BadVoice(f"{path} is no object", _DO)
    return values


def _file(folder: Path, values: Mapping[str, Any], key: str) -> Path:
    """A file that the configuration names; the loaders say whether it is there."""
    name = values.get(key)
    if not isinstance(name, str) or not _FILE_NAME.fullmatch(name):
        raise BadVoice(f"{key} is {to_printable(repr(name), 80)}, which is no name of a file in {folder}", _DO)
    return folder / name
