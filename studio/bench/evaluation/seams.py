"""Seam detection: whether word boundaries at segment ends differ from those within a segment of the same speech.

Controls: the teacher's recordings of the same words, which have no seams; the voice's own frames vocoded segment by
segment with cross-fades; and naive concatenation, one utterance per segment, which any detector must find.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from studio.bench.evaluation.settings import SeamSetting
from studio.bench.material import EvaluationRun, evaluation_run, options_text, read_texts
from studio.core.errors import BadFile, BadVoice
from studio.core.traces.trace import Trace
from studio.engine.tokenizers import dmel
from studio.engine.vocoders.module import EQUAL_POWER, segment_spans, vocode_by_segment
from studio.measure.recognisers.base import Sound
from studio.measure.recognisers.pocketsphinx import WordTime, align_all
from studio.measure.report import print_table
from studio.measure.seams import VALID_FROM, WordBoundary, area_interval, boundary_features, scores

TARGET_AREA = 0.60
ENOUGH = 2000  # fewest boundaries for a meaningful figure
_SAMPLES = dmel.TIME_BASE.frame_samples


@dataclass(frozen=True)
class _Spoken:
    """One text: its sound, its words, and the indices of words that end a segment."""

    sound: Sound
    words: str
    ends: frozenset[int]


def eval_seams(setting: SeamSetting) -> dict[str, Any]:
    """Area under the detector's ROC curve for each number of words a segment, for the voice and the controls.

    Raises:
        BadVoice: the voice has no segments of that many words.
        BadFile: no text has two segments, or nothing could be aligned.
    """
    texts = read_texts(setting.texts, setting.count)
    out: dict[str, Any] = {"texts": setting.texts.name, "n": len(texts), "hops": {}}
    with evaluation_run(setting) as at:
        if at.card.family != "speakstream":
            raise BadVoice(f"{at.card.name} is of the family {at.card.family}", "choose a SpeakStream voice")
        out |= at.about() | {"setting": options_text(at.one_setting), "overlap_frames": EQUAL_POWER.frames}
        for n in setting.hops:
            areas = seams_of(at, texts, at.one_setting | {"n": n})
            if areas is None:
                raise BadFile(f"no text of {setting.texts.name} has more than {n} words", "give longer texts")
            out["hops"][str(n)] = areas
    return out


def seams_of(at: EvaluationRun, texts: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Areas of the voice and of the controls with one setting, and whether they are meaningful.

    Returns:
        None if there is nothing to compare: every word or every text is a segment.
    """
    spoken = {speaker: at.speak(speaker, texts, dict(options)) for speaker in at.speakers}
    traces = [(one, _ends(one)) for of in spoken.values() for one in of]
    kinds = {k in ends for one, ends in traces for k in range(len(one.words()) - 1)}
    if len(kinds) < 2:
        return None
    conditions = {name: _measured(at, name, list(of)) for name, of in _conditions(at, texts, spoken, options)}
    return {"conditions": conditions, "valid": conditions["naive concatenation"]["area"]["value"] >= VALID_FROM}


def _conditions(
    at: EvaluationRun, texts: Sequence[str], spoken: Mapping[str, Sequence[Trace]], options: Mapping[str, Any]
) -> Iterator[tuple[str, Iterator[_Spoken]]]:
    """Every condition by name, over all texts of all speakers."""
    pairs = [(speaker, k, trace) for speaker, traces in spoken.items() for k, trace in enumerate(traces)]

    def voice() -> Iterator[_Spoken]:
        for _, _, trace in pairs:
            yield _Spoken((trace.pcm, trace.rate_hz), _words(trace), _ends(trace))

    def overlapped() -> Iterator[_Spoken]:
        bar = at.progress.add_task("vocode by segments", total=len(pairs))
        for _, _, trace in pairs:
            yield _Spoken((_by_segments(at, trace), trace.rate_hz), _words(trace), _ends(trace))
            at.progress.advance(bar)

    def naive() -> Iterator[_Spoken]:
        for speaker, _, trace in pairs:
            words = [word.text for word in trace.words()]
            pieces = [" ".join(words[i] for i in one.words) for one in trace.segments() if one.words]
            alone = [piece.pcm for piece in at.speak(speaker, pieces, dict(options))]
            yield _Spoken((np.concatenate(alone), trace.rate_hz), _words(trace), _ends(trace))

    def teacher() -> Iterator[_Spoken]:
        for speaker, traces in spoken.items():
            for trace, taught in zip(traces, at.teacher(speaker, texts), strict=True):
                if taught is not None and len(taught.label["words"]) == len(trace.words()):
                    yield _Spoken((taught.pcm, at.card.sample_rate_hz), " ".join(taught.label["words"]), _ends(trace))

    yield "voice", voice()
    yield "overlapped", overlapped()
    yield "naive concatenation", naive()
    yield "teacher, same words", teacher()


def _measured(at: EvaluationRun, name: str, spoken: Sequence[_Spoken]) -> dict[str, Any]:
    """All boundaries by one aligner; texts that it cannot align are left out."""
    bar = at.progress.add_task(f"align {name}", total=len(spoken))
    sounds, words = [one.sound for one in spoken], [one.words for one in spoken]
    aligned = align_all(sounds, words, workers=at.setting.workers, on_done=lambda: at.progress.advance(bar))
    features, labels, sentences = list[np.ndarray](), list[bool](), list[int]()
    for number, (one, times) in enumerate(zip(spoken, aligned, strict=True)):
        if times is None or len(times) != len(one.words.split()):
            continue
        boundaries = _boundaries(times, one.ends)
        features.append(boundary_features(*one.sound, boundaries))
        labels += [b.is_seam for b in boundaries]
        sentences += [number] * len(boundaries)
    if not features:
        raise BadFile(f"no sound of {name!r} could be aligned with its words", "give a voice that can be understood")
    x, y, of = np.concatenate(features), np.array(labels, bool), np.array(sentences)
    interval = area_interval(scores(x, y, of, at.setting.seed), y, of, at.setting.seed)
    unaligned = len(spoken) - len(set(sentences))
    return {"area": asdict(interval), "boundaries": len(y), "seams": int(y.sum()), "unaligned_texts": unaligned}


def _boundaries(times: Sequence[WordTime], ends: frozenset[int]) -> list[WordBoundary]:
    """Between each word and the next."""
    return [
        WordBoundary((a.end_s + b.start_s) / 2.0, a.end_s - a.start_s, b.end_s - b.start_s, k in ends)
        for k, (a, b) in enumerate(pairwise(times))
    ]


def _words(trace: Trace) -> str:
    return " ".join(word.text for word in trace.words())


def _ends(trace: Trace) -> frozenset[int]:
    return frozenset(one.words[-1] for one in trace.segments() if one.words)


def _by_segments(at: EvaluationRun, trace: Trace) -> np.ndarray:
    """The trace's frames, each segment vocoded from silence and cross-faded with the one before it: int16 [T]."""
    mels = dmel.dequantise(torch.from_numpy(np.array(trace.frames)))
    spans = segment_spans(trace, _SAMPLES)
    return vocode_by_segment(at.vocoder(str(trace.meta["vocoder"])), mels, spans, at.setting.seed)


def show(out: Mapping[str, Any]) -> None:
    rows: list[list[object]] = []
    for n, one in out["hops"].items():
        for name, of in one["conditions"].items():
            area, counts = of["area"], [of["seams"], of["boundaries"]]
            rows.append([f"n={n} {name}", area["value"], f"{area['low']:.3f} to {area['high']:.3f}", *counts])
        few = min(of["boundaries"] for of in one["conditions"].values())
        if few < ENOUGH:
            rows.append([f"n={n}: {few:,} boundaries are too few, give more texts ({ENOUGH:,})", "", "", "", ""])
        if not one["valid"]:
            rows.append([f"n={n}: the detector does not see naive concatenation: void", "", "", "", ""])
    title = f"Seams against other word boundaries: {out['n']} texts of {out['texts']} by {out['voice']}"
    note = f"Area under the ROC curve; 0.5 is chance; target of the voice: {TARGET_AREA:.2f} or less."
    print_table(title, ("", "area", "95%", "seams", "boundaries"), rows, note)
