"""Festival (speaker slt) and flite (speaker rms) as teachers: free synthesisers that print phone times.

Both are Debian packages (festival, festvox-us-slt-hts, flite). Festival prints the phones of every word; flite prints
phones only, so its words come from aligning its phones with festival's.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from studio.core.errors import BadOption, NeedsPackage
from studio.core.sound_files import read_mono
from studio.train.teachers.port import AlignedSpeech, spoken_words

SPEAKERS = {"slt": "festival's cmu_us_slt_arctic_hts (female)", "rms": "flite's cmu_us_rms (male)"}
PAUSES = frozenset({"pau", "#", "h#", "brth", "ssil"})
_BATCH = 50  # sentences per festival process, which takes longer to start than to speak a sentence


class Programs:
    """Festival and flite as a ``Teacher``."""

    def about(self, speaker: str) -> str:
        return SPEAKERS.get(speaker, "")

    def speak(self, speaker: str, texts: Sequence[str]) -> Iterator[AlignedSpeech | None]:
        if speaker not in SPEAKERS:
            raise BadOption(f"festival and flite have no speaker {speaker!r}", f"they have {', '.join(SPEAKERS)}")
        for program in ("festival", "flite") if speaker == "rms" else ("festival",):
            if shutil.which(program) is None:
                raise NeedsPackage(f"the teacher needs {program}", "apt-get install festival festvox-us-slt-hts flite")
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            for start in range(0, len(texts), _BATCH):
                part = texts[start : start + _BATCH]
                batch = [spoken_words(t) for t in part]
                analyses = _festival(batch, folder, wave=speaker == "slt")
                for text, words, analysis in zip(part, batch, analyses, strict=True):
                    yield _slt(text, words, analysis) if speaker == "slt" else _rms(text, words, analysis, folder)


@dataclass(frozen=True)
class _Analysis:
    """Festival's analysis of a sentence: words with phones, word ends, segments with ends, and the WAV file."""

    words: list[tuple[str, list[str]]]
    ends_s: list[float]
    segments: list[tuple[str, float]]
    wav: Path


_SCHEME = """
(define (front text)
 (let ((u (eval (list 'Utterance 'Text text))))
  (Initialize u) (Text u) (Token_POS u) (Token u) (POS u) (Phrasify u) (Word u)
  (Pauses u) (Intonation u) (PostLex u) u))
(define (dump u)
 (format t "U\\n")
 (mapcar (lambda (w) (format t "W %s\\n" (item.name w))
   (mapcar (lambda (s) (mapcar (lambda (p) (format t "P %s %s\\n" (item.name p) (item.feat p "segment_end")))
      (item.relation.daughters s 'SylStructure))) (item.relation.daughters w 'SylStructure)))
  (utt.relation.items u 'Word))
 (mapcar (lambda (p) (format t "S %s %s\\n" (item.name p) (item.feat p "segment_end")))
  (utt.relation.items u 'Segment)))
(voice_cmu_us_slt_arctic_hts)
"""


def _festival(batch: list[list[str]], folder: Path, *, wave: bool) -> list[_Analysis]:
    script = [_SCHEME]
    paths = [folder / f"festival-{i:03}.wav" for i in range(len(batch))]
    for words, path in zip(batch, paths, strict=True):
        text = " ".join(words)
        if wave:
            script.append(f"(set! u (eval (list 'Utterance 'Text \"{text}\"))) (utt.synth u) (dump u)")
            script.append(f'(utt.save.wave u "{path}" \'riff)')
        else:
            script.append(f'(dump (front "{text}"))')
    source = folder / "batch.scm"
    source.write_text("\n".join(script), encoding="ascii")
    done = subprocess.run(["festival", "-b", str(source)], capture_output=True, text=True, check=True)
    analyses: list[_Analysis] = []
    for line in done.stdout.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "U":
            analyses.append(_Analysis([], [], [], paths[len(analyses)]))
        elif kind == "W":
            analyses[-1].words.append((rest, []))
            analyses[-1].ends_s.append(0.0)
        elif kind == "P":
            name, end = rest.split()
            analyses[-1].words[-1][1].append(name)
            analyses[-1].ends_s[-1] = float(end)
        elif kind == "S":
            name, end = rest.split()
            analyses[-1].segments.append((name, float(end)))
    assert len(analyses) == len(batch), "festival answered another number of sentences"
    return analyses


def _joined(words: list[str], analysis: _Analysis) -> list[tuple[list[str], float]] | None:
    """Phones and end of each word; festival splits words at apostrophes, so its pieces are joined."""
    out: list[tuple[list[str], float]] = []
    pieces = list(zip(analysis.words, analysis.ends_s, strict=True))
    for word in words:
        letters = re.sub(r"[^a-z]", "", word)
        have, phones, end = "", [], 0.0
        while pieces and (have != letters or not pieces[0][0][1]):
            (name, more), piece_end = pieces.pop(0)
            have += re.sub(r"[^a-z]", "", name.lower())
            phones += more
            end = max(end, piece_end)
            if not letters.startswith(have):
                return None
        if have != letters or not phones:
            return None
        out.append((phones, end))
    return None if pieces else out


def _slt(text: str, words: list[str], analysis: _Analysis) -> AlignedSpeech | None:
    joined = _joined(words, analysis)
    pcm, rate_hz = read_mono(analysis.wav)
    analysis.wav.unlink()
    if joined is None or not words:
        return None
    return AlignedSpeech(text, "slt", rate_hz, pcm, words, [end for _, end in joined], analysis.segments)


def _rms(text: str, words: list[str], analysis: _Analysis, folder: Path) -> AlignedSpeech | None:
    joined = _joined(words, analysis)
    if joined is None or not words:
        return None
    wav = folder / "flite.wav"
    command = ["flite", "-voice", "rms", "-t", " ".join(words), "-psdur", "-o", str(wav)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    phones = [(p.rpartition(":")[0], float(p.rpartition(":")[2])) for p in printed if ":" in p]
    owners = align_phones([p for p, _ in joined], [name for name, _ in phones])
    pcm, rate_hz = read_mono(wav)
    if owners is None:
        return None
    ends = [max(end for (_, end), owner in zip(phones, owners, strict=True) if owner == i) for i in range(len(words))]
    return AlignedSpeech(text, "rms", rate_hz, pcm, words, ends, phones)


def align_phones(words: list[list[str]], phones: list[str]) -> list[int | None] | None:
    """Assign phones to words by the cheapest alignment of two phone strings.

    Args:
        words: each word's phones by one lexicon.
        phones: as spoken, pauses included.

    Returns:
        A word index for each phone (None for pauses); None if they differ too much or a word gets no phone.
    """
    expected = [(p, i) for i, ps in enumerate(words) for p in ps]
    spoken = [(p, j) for j, p in enumerate(phones) if p not in PAUSES]
    rows, columns = len(expected), len(spoken)
    cost = np.zeros((rows + 1, columns + 1))
    cost[:, 0], cost[0, :] = np.arange(rows + 1), np.arange(columns + 1)
    vowels = re.compile("[aeiou]")
    for r in range(1, rows + 1):
        for c in range(1, columns + 1):
            a, b = expected[r - 1][0], spoken[c - 1][0]
            swap = 0.0 if a == b else 0.5 if bool(vowels.match(a)) == bool(vowels.match(b)) else 1.5
            cost[r, c] = min(cost[r - 1, c - 1] + swap, cost[r - 1, c] + 1, cost[r, c - 1] + 1)
    owners: list[int | None] = [None] * len(phones)
    r, c = rows, columns
    while c > 0:
        a, b = (expected[r - 1][0] if r else ""), spoken[c - 1][0]
        swap = 0.0 if a == b else 0.5 if bool(vowels.match(a)) == bool(vowels.match(b)) else 1.5
        owners[spoken[c - 1][1]] = expected[max(r - 1, 0)][1]
        if r and cost[r, c] == cost[r - 1, c - 1] + swap:
            r, c = r - 1, c - 1
        elif r and cost[r, c] == cost[r - 1, c] + 1:
            r -= 1
        else:
            c -= 1
    used = {o for o in owners if o is not None}
    if cost[rows, columns] > 0.2 * rows + 1 or used != set(range(len(words))):
        return None
    return owners
