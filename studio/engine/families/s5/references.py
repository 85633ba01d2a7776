"""A speaker's reference from a recording and its words (paper 001): frames and phonemes, cut to what the net takes.

The net's auxiliary attention aligns the two; the mean log weight along the path measures how well they match. Measured
with finch: -0.9 to -1.2 for the right words and -2.1 to -3.1 with white noise 25 dB below; -5.5 to -9 for other words,
and -4 to -5.5 for the right words without what is above 4 kHz.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain

import numpy as np
import torch
from torch import Tensor

from studio.core.errors import BadVoice
from studio.core.speakers import BadRecording
from studio.engine.families.base import NewReference
from studio.engine.families.s5.model import S5, is_reference, split_words, words_by_frame
from studio.engine.families.s5.policy import SpeakerReference
from studio.engine.tokenizers import dmel

FRAMES, TRANSCRIPT, WORDS = "frames", "transcript", "words"  # the word of each frame
MIN_LOG_SHARE = -3.9  # of the path
_MIN_SHARE = 0.5  # of the net's longest reference that is used, if the recording has it


def new_reference(net: S5, frames: Tensor, spelled: Sequence[Sequence[int]]) -> NewReference:
    """The first words of a recording, up to a quiet end of a word.

    Args:
        frames: uint8 [F, 80].
        spelled: phoneme ids of each word.

    Raises BadRecording: the words are not those of the recording, or no word fits.
    """
    symbols = [*chain.from_iterable(spelled)]
    most = net.config.reference_frames
    frame_s = dmel.TIME_BASE.frame_ms / 1000.0
    if len(frames) < len(symbols):
        raise BadRecording(
            f"the text has {len(symbols)} phonemes, too many for {len(frames) * frame_s:.1f} s of speech",
            "give the words that the recording says, and no others",
        )
    path, log_share = net.align_scored(symbols, frames.to(net.silence.device))
    if log_share < MIN_LOG_SHARE:
        raise BadRecording(
            "the recording and the text do not match, or the recording is noisy or telephone speech",
            "write what it says, word by word, or record it again in a quiet room",
        )
    through = [*accumulate(map(len, spelled))]
    ends = [int(np.flatnonzero(path < count)[-1]) + 1 for count in through]
    fits = [i for i, end in enumerate(ends) if end <= most and through[i] <= end]
    if not fits:
        raise BadRecording(f"no word ends within {most * frame_s:.1f} s of the beginning", "speak at a normal pace")
    long = [i for i in fits if ends[i] >= _MIN_SHARE * most] or fits[-1:]
    loudness = frames.float().mean(1).numpy()
    last = min(long, key=lambda i: (loudness[ends[i] - 1], -i))
    used, transcript = frames[: ends[last]], symbols[: through[last]]
    tensors = {
        FRAMES: used.numpy(),
        TRANSCRIPT: np.array(transcript, np.int64),
        WORDS: np.array(words_by_frame(net, transcript, used.to(net.silence.device)), np.int64),
    }
    return NewReference(tensors, ends[last] * frame_s)


def read_reference(net: S5, tensors: Mapping[str, np.ndarray]) -> SpeakerReference:
    """A stored reference; the net is not run. Raises BadVoice: it does not fit the net."""
    problem = BadVoice(
        "the reference of an added speaker does not fit this voice", "remove the speaker, and add it again"
    )
    if not {FRAMES, TRANSCRIPT, WORDS} <= tensors.keys():
        raise problem
    frames, symbols, words = tensors[FRAMES], tensors[TRANSCRIPT], tensors[WORDS]
    is_shaped = symbols.ndim == 1 and frames.ndim == 2 and frames.shape[1] == dmel.CHANNELS
    is_shaped = is_shaped and words.shape == frames.shape[:1]
    if not is_shaped or (frames.dtype, symbols.dtype, words.dtype) != (np.uint8, np.int64, np.int64):
        raise problem
    ids, spoken, levels = [*map(int, symbols)], [*map(int, words)], torch.from_numpy(frames)
    if not 0 < len(frames) <= net.config.reference_frames or not is_reference(ids, levels):
        raise problem
    spelled = split_words(ids)
    if spoken != sorted(spoken) or not 0 <= spoken[0] <= spoken[-1] < len(spelled):
        raise problem
    return SpeakerReference(spelled, frames, spoken if net.config.decoder_mask else [])
