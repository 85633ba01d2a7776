"""References: what a speaker said once, with its transcript, which a net of S5-TTS goes on from."""

from itertools import accumulate

from studio.core.cards import Card
from studio.core.errors import BadVoice
from studio.engine.alphabets import dmel
from studio.engine.families.s5.net import S5
from studio.engine.families.s5.step import Reference
from studio.engine.families.spelling import IDS, SPACE

_LONGEST_REFERENCE = 400  # frames


def reference(net: S5, speaker: int) -> Reference:
    """What a speaker said once, its words told apart; all empty where an embedding tells the speaker."""
    symbols, frames = net.reference_of(speaker)
    if not symbols:
        return Reference([], frames.cpu().numpy(), [])
    words = [*accumulate(int(symbol == SPACE) for symbol in symbols)]
    spelled = [[s for s, w in zip(symbols, words, strict=True) if w == word] for word in range(1, words[-1] + 1)]
    spoken = [words[t] - 1 for t in net.align(symbols, frames)] if net.config.decoder_mask else []
    return Reference(spelled, frames.cpu().numpy(), spoken)


def check_references(card: Card, net: S5) -> None:
    """Raises BadVoice unless every speaker has a reference and its transcript, where these tell the speaker."""
    if net.config.reference_frames > _LONGEST_REFERENCE:
        raise BadVoice(f"a reference has {net.config.reference_frames} frames", f"at most {_LONGEST_REFERENCE} fit")
    for number, speaker in enumerate(card.speakers if net.config.reference_frames else ()):
        symbols, frames = net.reference_of(number)
        begins = bool(symbols) and symbols[0] == SPACE and max(symbols) < IDS
        if not (begins and len(frames) >= len(symbols) and int(frames.max()) < dmel.LEVELS):
            raise BadVoice(
                f"the reference of {speaker} has {len(symbols)} phonemes and {len(frames)} frames",
                "a reference is speech with its transcript; pack the voice anew",
            )
