"""Texts of one and two words: recognised as often as the teacher's, and complete."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from studio.bench.evaluation.settings import ShortSetting
from studio.bench.evaluation.wer import resynthesised
from studio.bench.material import EvaluationRun, evaluation_run, options_text, read_texts
from studio.core.errors import BadFile
from studio.measure.bootstrap import bootstrap_mean
from studio.measure.recognisers.base import Sound
from studio.measure.report import console, print_table, recogniser_name, setting_name
from studio.measure.signal.loudness import audible_s
from studio.measure.wer import scored_words

_WHO = ("teacher", "dmel", "voice")  # dmel: the teacher's frames through the voice's vocoder
_WHOLE = 0.5  # share of the teacher's length; shorter speech is cut off


def eval_short(setting: ShortSetting) -> dict[str, Any]:
    """Share of texts recognised, beside the teacher's, and lengths relative to the teacher's."""
    texts = draw_texts(read_texts(setting.texts), setting.count, setting.seed)
    if not texts:
        raise BadFile(f"{setting.texts} holds no word", "give a file of sentences")
    out: dict[str, Any] = {"texts": texts, "speakers": {}}
    with evaluation_run(setting) as at:
        out |= at.about() | {"recogniser": at.recogniser.about, "setting": options_text(at.one_setting)}
        for speaker in at.speakers:
            out["speakers"][speaker] = _speaker(at, speaker, texts)
    if not setting.quiet:
        show(out)
    return out


def draw_texts(lines: Sequence[str], count: int, seed: int) -> list[str]:
    """Distinct texts of one and of two words alternately, from anywhere in ``lines``, without punctuation."""
    dice = np.random.default_rng(seed)
    found: list[str] = []
    pools = [[" ".join(words) for line in lines for words in _runs(line, length)] for length in (1, 2)]
    for number in range(count):
        pool = sorted({*pools[number % 2]} - {*found})
        if pool:
            found.append(pool[dice.integers(len(pool))])
    return found


def _runs(line: str, length: int) -> list[list[str]]:
    """Every sequence of ``length`` words without punctuation between them."""
    words = line.split()
    bare = [word.strip("\"'()[].,;:!?") for word in words]
    starts = range(len(words) - length + 1)
    whole = (at for at in starts if all(word[-1:].isalnum() for word in words[at : at + length - 1]))
    return [run for at in whole if all(run := [one.lower() for one in bare[at : at + length]])]


def _speaker(at: EvaluationRun, speaker: str, texts: Sequence[str]) -> dict[str, Any]:
    taught = at.teacher(speaker, texts)
    kept = [place for place, one in enumerate(taught) if one is not None]
    texts = [texts[place] for place in kept]
    teacher: list[Sound] = [(one.pcm, at.card.sample_rate_hz) for one in taught if one is not None]
    spoken: list[Sound] = [(one.pcm, one.rate_hz) for one in at.speak(speaker, texts, at.one_setting)]
    sounds = {"teacher": teacher, "dmel": resynthesised(at, teacher), "voice": spoken}
    heard = {name: at.transcribe(f"{speaker} {name}", sound) for name, sound in sounds.items()}
    right = {name: [_same(*pair) for pair in zip(texts, said, strict=True)] for name, said in heard.items()}
    gains = [float(ours) - float(theirs) for ours, theirs in zip(right["voice"], right["teacher"], strict=True)]
    said_as = zip(texts, heard["voice"], right["voice"], strict=True)
    lengths = [audible_s(*one) / max(audible_s(*like), 1e-3) for one, like in zip(spoken, teacher, strict=True)]
    return {
        "n": len(texts),
        "right": {name: float(np.mean(each)) for name, each in right.items()},
        "above_teacher": asdict(bootstrap_mean(gains)),
        "shortest": min(lengths),
        "cut_short": [text for text, length in zip(texts, lengths, strict=True) if length < _WHOLE],
        "misheard": [[text, said] for text, said, is_right in said_as if not is_right],
    }


def _same(text: str, heard: str) -> bool:
    return scored_words(text) == scored_words(heard)


def show(out: Mapping[str, Any]) -> None:
    """Print the figures, fresh or read back from bench/results."""
    rows = []
    for speaker, one in out["speakers"].items():
        right, above = one["right"], one["above_teacher"]
        paired = f"{above['low']:+.2f} to {above['high']:+.2f}"
        rows.append(
            [speaker, one["n"], *(right.get(name) for name in _WHO), paired, one["shortest"], len(one["cut_short"])]
        )
    columns = (
        "",
        "n",
        "teacher right",
        "its dMel right",
        "voice right",
        "95% paired",
        "shortest / teacher",
        "cut short",
    )
    title = f"Texts of one and two words by {out['voice']}{setting_name(out)}, heard by {recogniser_name(out)}"
    print_table(title, columns, rows)
    for speaker, one in out["speakers"].items():
        for text, said in one["misheard"]:
            console().print(f"{speaker}: {text!r} was heard as {said!r}", markup=False)
