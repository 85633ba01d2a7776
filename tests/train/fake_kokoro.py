"""A net with Kokoro's contract and no weights: every word is a distinct tone, two frames ahead of its durations."""

import numpy as np

from studio.train.teachers.kokoro import KokoroOutput

RATE_HZ, STEP = 24_000, 600
VOCABULARY = {s: i for i, s in enumerate(';:,.!?— AIOQWYbdfhijklmnpstuvwzæðŋɑɐɔəɛɜɡɪɹɾʃʊʌʒʤʧˈˌθᵊᵻʔaoeɚ“”…()"', start=1)}
AHEAD = 2


def tone_hz(word: int) -> float:
    """The tone of a word, distinguishable from its neighbours' in one frame."""
    return 400.0 + 160.0 * (word % 12)


class FakeKokoro:
    """The port `Net`: a silent first token, tones for words, silence for marks."""

    def __init__(self, first: int = 14, loud: float = 0.2) -> None:
        self.vocabulary = VOCABULARY
        self.first, self.loud = first, loud
        self.asked: list[tuple[str, list[int]]] = []

    def make(self, speaker: str, tokens: list[int]) -> KokoroOutput:
        """Durations from the token ids; equal tokens give equal sounds."""
        self.asked.append((speaker, tokens))
        names = {i: s for s, i in VOCABULARY.items()}
        frames = np.array([self.first, *(1 + t % 3 for t in tokens[1:-1]), 2], np.int64)
        frames[[i for i, t in enumerate(tokens) if names.get(t, "") in ".,?!;:"]] += 5
        sound = np.zeros(int(frames.sum()) * STEP, np.float32)
        start, word = int(frames[0]), 0
        for token, count in zip(tokens[1:-1], frames[1:-1], strict=True):
            name = names[token]
            word += name == " "
            if name not in ".,?!;:":
                at = np.arange((start - AHEAD) * STEP, (start - AHEAD + count) * STEP)
                sound[at] = self.loud * np.sin(2 * np.pi * tone_hz(word) * at / RATE_HZ)
            start += int(count)
        return KokoroOutput(sound, frames)
