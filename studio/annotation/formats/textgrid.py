"""TextGrids of Praat: a tier for each layer, exact to the sample. Lost: label sets.

An interval without text is a gap to Praat, so a region without a label is written as one blank.
"""

from studio.annotation.formats.placing import Placing, bounded
from studio.annotation.formats.tiers import Tier, gathered, notes_name, spread, tier_name
from studio.annotation.layers import Annotation, Layer, Mark
from studio.core.errors import BadFile, BadOption
from studio.core.traces.textgrid import Entry, read_tiers, write_tiers
from studio.core.traces.textgrid import Tier as GridTier


def write(annotation: Annotation) -> bytes:
    """The long form in UTF-8. Raises BadOption: the sound has no length, or too many marks lie over one another."""
    if not annotation.samples:
        raise BadOption("the sound has no samples", "a TextGrid needs a length")
    rate_hz = annotation.rate_hz
    tiers: list[GridTier] = []
    for layer in annotation.layers:
        for part, marks in enumerate(spread(layer, _span), 1):
            tiers.append(_tier(tier_name(layer.name, part), layer, {one: one.label for one in marks}, rate_hz))
            if notes := {one: one.note for one in marks if one.note}:
                tiers.append(_tier(notes_name(layer.name, part), layer, notes, rate_hz))
    return write_tiers(tiers, annotation.samples / rate_hz).encode()


def read(data: bytes, rate_hz: int, samples: int) -> Annotation:
    """Every tier as a layer; intervals without text are gaps.

    Raises:
        BadFile: it is no TextGrid, is larger than 16 MB, or a time of it does not lie in the sound.
    """
    return read_on(data, Placing(rate_hz, samples))


def read_on(data: bytes, placing: Placing) -> Annotation:
    """``read`` on a sound that is given with what may lie behind its end."""
    tiers: list[Tier] = []
    for number, tier in enumerate(read_tiers(bounded(data)), 1):
        name = tier.name if tier.name.strip() else f"tier {number}"
        entries = tier.entries if tier.is_points else [one for one in tier.entries if one.text]
        marks = tuple(_mark(one, name, tier.is_points, placing) for one in entries)
        tiers.append(Tier(name, "points" if tier.is_points else "regions", marks))
    return placing.annotation(gathered(tiers))


def _span(mark: Mark) -> tuple[int, int]:
    return mark.start_sample, mark.end_sample


def _tier(name: str, layer: Layer, texts: dict[Mark, str], rate_hz: int) -> GridTier:
    is_points = layer.kind == "points"
    entries = [
        Entry(mark.start_sample / rate_hz, mark.end_sample / rate_hz, text if is_points else _shown(text))
        for mark, text in texts.items()
    ]
    return GridTier(name, is_points, entries)


def _mark(entry: Entry, name: str, is_points: bool, placing: Placing) -> Mark:
    where = f"{name}: {entry.text[:40]!r}"
    start, end = placing.sample(entry.start_s, where), placing.sample(entry.end_s, where)
    if entry.end_s < entry.start_s or (not is_points and start == end):
        raise BadFile(f"{where} lies from {entry.start_s:g} to {entry.end_s:g} s", "an interval ends after it begins")
    return Mark(start, end, entry.text if is_points else _said(entry.text))


def _shown(text: str) -> str:
    """A text that is nothing but blanks gets one more, so that none is empty."""
    return text if text.strip() else text + " "


def _said(text: str) -> str:
    return text if text.strip() else text[:-1]
