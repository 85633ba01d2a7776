"""Boundaries: whether a segment speaks exactly its own words, and whether its end is at the end of a word.

Scores in seconds exclude the text's last boundary, where the segment ends after the final silence by design.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from studio.bench.evaluation.settings import BoundarySetting
from studio.bench.material import EvaluationRun, TeacherSpeech, evaluation_run, read_texts
from studio.core.errors import BadVoice
from studio.core.traces.trace import Trace
from studio.engine.families.common.teacher_forcing import TeacherForcingInput
from studio.engine.families.speakstream.model import SpeakStream
from studio.engine.families.speakstream.policy import SpeakStreamOptions
from studio.engine.families.speakstream.runner import SpeakStreamFamily
from studio.engine.tokenizers import dmel
from studio.measure.recognisers.base import Sound
from studio.measure.recognisers.pocketsphinx import WordTime, align_all
from studio.measure.report import print_table
from studio.measure.word_timing import BoundaryScore, boundary_score, distances, speaks_exactly
from studio.train.families.speakstream_fit import BOS, EOS, FRAME, collate, interleave
from studio.train.features import Sentence, encode_label

COLLAR_S = 0.1
FORCED_COLLAR_S = 0.025  # one frame
_PROMPT_FRAMES = 10
_FIRES = 0.5
_FRAME_S = dmel.TIME_BASE.frame_ms / 1000.0


def eval_boundaries(setting: BoundarySetting) -> dict[str, Any]:
    """Segments with the right words by hop; at n=1 also p_eos on the teacher's speech, and EOS against the aligner."""
    texts = read_texts(setting.texts, setting.count)
    out: dict[str, Any] = {"texts": setting.texts.name, "n": len(texts), "m": setting.m, "speakers": {}}
    with evaluation_run(setting) as at:
        if at.card.family != "speakstream":
            raise BadVoice(
                f"{at.card.name} is of the family {at.card.family}, which has no p_eos at the end of each word",
                "choose a SpeakStream voice, or compare settings with `studio eval wer`",
            )
        out |= at.about()
        for speaker in at.speakers:
            out["speakers"][speaker] = _speaker(at, setting, speaker, texts)
    return out


def _speaker(at: EvaluationRun, setting: BoundarySetting, speaker: str, texts: Sequence[str]) -> dict[str, Any]:
    figures: dict[str, Any] = {"window": {}}
    taught = [(text, one) for text, one in zip(texts, at.teacher(speaker, texts), strict=True) if one is not None]
    for n in () if setting.only_forced else setting.hops:
        traces = at.speak(speaker, texts, {"m": setting.m, "n": n})
        transcripts = [" ".join(word.text for word in trace.words()) for trace in traces]
        aligned = _align(at, f"{speaker} n={n}", [(one.pcm, one.rate_hz) for one in traces], transcripts)
        figures["window"][str(n)] = window_adherence(traces, aligned)
        if n == 1:
            figures["free_running"] = _free_running(traces, aligned)
    if "free_running" in figures:
        sounds = [(one.pcm, at.card.sample_rate_hz) for _, one in taught]
        words = [" ".join(one.label["words"]) for _, one in taught]
        ceiling = _ceiling([one for _, one in taught], _align(at, f"{speaker} teacher", sounds, words))
        share = figures["free_running"]["f1"] / ceiling["f1"] if ceiling["f1"] else float("nan")
        figures["aligner_on_teacher"], figures["free_running"]["of_ceiling"] = ceiling, share
    family = at.engine.voice(at.card.name).family
    assert isinstance(family, SpeakStreamFamily), "p_eos is SpeakStream's"
    speakers, own = list(at.card.speakers), [one for _, one in taught]
    figures["teacher_forced"] = teacher_forced(family.net, speakers, own, SpeakStreamOptions("S1", setting.m, 1))
    figures["unaided"] = unaided(family, speakers, own, {"scheme": "S1", "m": setting.m, "n": 1})
    return figures


def _align(at: EvaluationRun, name: str, sounds: Sequence[Sound], texts: Sequence[str]) -> list[list[WordTime] | None]:
    bar = at.progress.add_task(f"align {name}", total=len(sounds))
    return align_all(sounds, texts, workers=at.setting.workers, on_done=lambda: at.progress.advance(bar))


def window_adherence(traces: Sequence[Trace], aligned: Sequence[list[WordTime] | None]) -> dict[str, Any]:
    """Share of segments that contain the midpoints of exactly their own words; 0 where alignment fails."""
    exact = segments = forced = unaligned = 0
    for trace, words in zip(traces, aligned, strict=True):
        spans = [(one.start_s * trace.rate_hz, one.end_s * trace.rate_hz) for one in words or ()]
        fits = len(spans) == len(trace.words())
        unaligned += not fits
        for segment in trace.segments():
            segments += 1
            forced += segment.forced
            exact += fits and speaks_exactly((segment.start, segment.end), segment.words, spans)
    share = max(1, segments)
    return {"obeyed": exact / share, "forced": forced / share, "segments": segments, "unaligned_texts": unaligned}


def _free_running(traces: Sequence[Trace], aligned: Sequence[list[WordTime] | None]) -> dict[str, Any]:
    """EOS against the aligner's word ends, in the voice's own audio."""
    ours = [[one.end / trace.rate_hz for one in trace.segments()[:-1]] for trace in traces]
    return _f1([(predicted, _ends(words)) for predicted, words in zip(ours, aligned, strict=True)])


def _ceiling(taught: Sequence[TeacherSpeech], aligned: Sequence[list[WordTime] | None]) -> dict[str, Any]:
    """The same aligner's word ends against the teacher's."""
    return _f1([(_ends(words) or [], one.word_ends_s[:-1]) for one, words in zip(taught, aligned, strict=True)])


def _ends(words: list[WordTime] | None) -> list[float] | None:
    return None if words is None else [one.end_s for one in words[:-1]]


def _f1(pairs: Sequence[tuple[list[float], list[float] | None]]) -> dict[str, Any]:
    """F1 at the collar; a text without an alignment counts as all misses."""
    total = BoundaryScore(0, 0, 0)
    for predicted, true in pairs:
        total += (
            BoundaryScore(0, len(predicted), len(predicted))
            if true is None
            else boundary_score(predicted, true, COLLAR_S)
        )
    return {"f1": total.f1, "precision": total.precision, "recall": total.recall, "boundaries": total.true}


def teacher_forced(
    net: SpeakStream, speakers: list[str], taught: Sequence[TeacherSpeech], options: SpeakStreamOptions
) -> dict[str, Any]:
    """First p_eos above 0.5 in each segment of the teacher's frames, against the teacher's word ends.

    Later frames belong to the next segment, so a p_eos that stays below is a miss.
    """
    return _scored([_teacher_forced_one(net, speakers, one, options) for one in taught])


def unaided(
    family: SpeakStreamFamily, speakers: list[str], taught: Sequence[TeacherSpeech], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Ends that p_eos alone finds in the teacher's frames, in sequence, against the teacher's word ends.

    Frames are not assigned to words: a missed or early end shifts the following words, as in ``studio force``.
    """
    pairs: list[tuple[list[float | None], list[float]]] = []
    for one in taught:
        sentence, start_s = _sentence(one)
        recording = TeacherForcingInput(sentence.words, sentence.levels, speakers.index(sentence.speaker), options)
        predicted: list[float | None] = [
            start_s + _FRAME_S * (each.first + len(each.p_eos)) for each in family.teacher_force(recording)
        ]
        true = one.word_ends_s[:-1]
        pairs.append(((predicted[:-1] + [None] * len(true))[: len(true)], true))
    return _scored(pairs)


def _scored(pairs: Sequence[tuple[list[float | None], list[float]]]) -> dict[str, Any]:
    """Distances of predicted and true ends in order, and F1 at a collar of one frame."""
    result = distances([one for predicted, _ in pairs for one in predicted], [one for _, true in pairs for one in true])
    total = BoundaryScore(0, 0, 0)
    for predicted, true in pairs:
        total += boundary_score([one for one in predicted if one is not None], true, FORCED_COLLAR_S)
    return {
        "median_ms": 1000.0 * result.median_s,
        "p90_ms": 1000.0 * result.p90_s,
        "boundaries": result.count,
        "misses": result.missing,
        "f1_25_ms": total.f1,
    }


def _sentence(one: TeacherSpeech) -> tuple[Sentence, float]:
    """The teacher's frames as in training, and their start in the recording in seconds."""
    sentence, _ = encode_label(one.folder, one.label)
    return sentence, one.word_ends_s[0] - _FRAME_S * sentence.word_ends[0]


@torch.inference_mode()
def _teacher_forced_one(
    net: SpeakStream, speakers: list[str], one: TeacherSpeech, options: SpeakStreamOptions
) -> tuple[list[float | None], list[float]]:
    """Times in the recording, in seconds, of each inner segment's p_eos and of the end of its last word."""
    sentence, start_s = _sentence(one)
    silence = net.get_buffer("silence")[speakers.index(sentence.speaker)].cpu().numpy()
    row = interleave(sentence, silence, options, np.random.default_rng(0), prompt=_PROMPT_FRAMES)
    batch = collate([row], speakers, 0.0, np.random.default_rng(0)).to(next(net.parameters()).device)
    x = net.embed_symbols(batch.symbols, batch.speaker)[0]
    x = x.index_copy(0, batch.frame_at, net.embed_frames(batch.frame_levels, batch.speaker.expand(len(batch.frame_at))))
    x = x.index_copy(0, batch.bos_at, net.embed_bos(batch.bos_windows, batch.speaker.expand(len(batch.bos_at))))
    _, logits = (out[0] for out in net.heads(net.decoder(x.unsqueeze(0))))
    p_eos = logits.float().sigmoid().cpu().numpy()
    predicted: list[float | None] = []
    last = -1
    for at in np.flatnonzero(row.kind == EOS)[:-1]:
        tokens = [k for k in range(last + 1, at) if row.kind[k] in (BOS, FRAME) and not np.isnan(row.stop[k])]
        hit = next((k for k in tokens if p_eos[k] > _FIRES), None)
        if hit is None:
            predicted.append(None)
        else:  # the segment ends before this frame
            after = int(row.value[hit]) + 1 if row.kind[hit] == FRAME else int(row.target[hit])
            predicted.append(start_s + _FRAME_S * (after - _PROMPT_FRAMES))
        last = at
    words = np.cumsum([spoken for _, spoken, _ in row.windows])[:-1]
    ends = [one.word_ends_s[word - 1] for word in words]
    return predicted, ends


def show(out: Mapping[str, Any]) -> None:
    rows: list[list[object]] = []
    for speaker, one in out["speakers"].items():
        for n, window in one["window"].items():
            rows.append(
                [
                    f"{speaker} segments with exactly their own words, n={n}",
                    window["obeyed"],
                    f"forced {window['forced']:.3f}",
                ]
            )
        forced = one["teacher_forced"]
        misses = f"{forced['misses']} of {forced['boundaries']} missing"
        rows.append([f"{speaker} (a) teacher-forced, median |dt| ms", forced["median_ms"], misses])
        if "f1_25_ms" in forced:
            rows.append(
                [f"{speaker} (a) teacher-forced, F1 at 25 ms", forced["f1_25_ms"], f"p90 {forced['p90_ms']:.1f} ms"]
            )
        if alone := one.get("unaided"):
            missing = f"{alone['misses']} of {alone['boundaries']} missing, p90 {alone['p90_ms']:.1f} ms"
            rows.append([f"{speaker} (a) p_eos alone, median |dt| ms", alone["median_ms"], missing])
            rows.append([f"{speaker} (a) p_eos alone, F1 at 25 ms", alone["f1_25_ms"], ""])
        if "free_running" in one:
            free, top = one["free_running"], one["aligner_on_teacher"]
            rows.append(
                [f"{speaker} (b) free-running F1 at 100 ms", free["f1"], f"{free['of_ceiling']:.3f} of ceiling"]
            )
            rows.append([f"{speaker} the aligner on the teacher, F1", top["f1"], f"{top['boundaries']} boundaries"])
    print_table(f"Boundaries of {out['voice']}, m={out['m']}, {out['n']} texts of {out['texts']}", ("", "", ""), rows)
