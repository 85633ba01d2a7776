"""Where DSM-TTS's text begins: its streams and its frames are one sum, in which each has to be told (docs/adr/0019)."""

from pathlib import Path

import torch
from torch import Tensor

from studio.engine.alphabets import dmel
from studio.engine.families.bpe import FILE as BPE_FILE
from studio.engine.families.dsm.net import Dsm
from studio.train.loop.weights import read_weights

_FRAMES_KEEP_TO = 0.995  # of their squares: what lies in the directions beyond tells next to nothing of a frame


def tokens_of(path: Path, encoding: Path) -> Tensor | None:
    """What an IST-LM has learned of the tokens of an encoding, [N, D]; None where it reads another one.

    Args:
        path: its weights, with its own encoding beside them.
        encoding: a file of byte pairs.

    Raises:
        BadFile: the weights are none.
    """
    theirs = path.with_name(BPE_FILE)
    if not theirs.is_file() or theirs.read_bytes() != encoding.read_bytes():
        return None
    return read_weights(path).get("symbol.weight")


@torch.no_grad()
def lay_text_apart(net: Dsm, tokens: Tensor | None) -> None:
    """Put text where frames are not, and make it as long as they are.

    Trained frames are ten times as long as tokens, and keep to few of the directions that there are: what lies in these
    is taken away from both streams of text. The look-ahead stays as short as it is: it is not what is spoken. No text
    (``pad``) is nothing.

    Args:
        net: frames and speakers' recordings as they will be.
        tokens: [N, D] to begin with, the encoding's first; by chance where there are none.
    """
    heard = net.extract[net.extract[:, :, 0] != dmel.PAD]
    frames = net.frame(net.level(heard.long()).flatten(-2))
    _, sizes, directions = torch.linalg.svd(frames, full_matrices=False)
    shares = sizes.square().cumsum(0) / sizes.square().sum()
    directions = directions[: int((shares < _FRAMES_KEEP_TO).sum()) + 1]
    text, ahead, count = net.text.weight, net.ahead.weight, net.config.text_tokens
    if tokens is not None:
        text[:count] = tokens[:count]
    for table in (text, ahead):
        table -= table @ directions.T @ directions
    text *= frames.norm(dim=-1).mean() / text[:count].norm(dim=-1).mean()
    text[net.config.symbols.pad] = 0.0
