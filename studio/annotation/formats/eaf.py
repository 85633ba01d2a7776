"""ELAN's EAF: a tier for each layer, exact to the millisecond.

A label set is a controlled vocabulary, a note an annotation of a dependent tier, a point an annotation of one
millisecond on a tier of the type ``points``. Overlapping marks are split into several tiers.
"""

import datetime
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from xml.parsers import expat

from studio.annotation.formats.tiers import (
    MarkTier,
    SampleGrid,
    check_count,
    check_size,
    layers_from_tiers,
    notes_name,
    split_into_tiers,
    tier_name,
    unix_newlines,
)
from studio.annotation.layers import Annotation, AnnotationLayer, AnnotationMark, Kind
from studio.core.csv_files import parse_number
from studio.core.errors import BadFile

MAX_DEPTH = 32
MAX_ELEMENTS, MAX_ATTRIBUTES = 200_000, 600_000  # 20,000 marks with notes have 160,000 elements


@dataclass(slots=True)
class Element:
    """An element with its attributes, children and direct text."""

    tag: str
    attributes: dict[str, str]
    children: list["Element"] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def all(self, tag: str) -> Iterator["Element"]:
        """Its children of a tag."""
        return (one for one in self.children if one.tag == tag)

    def first(self, tag: str) -> "Element | None":
        """Its first child of a tag."""
        return next(self.all(tag), None)

    def need(self, name: str) -> str:
        """An attribute. Raises BadFile where it is missing."""
        if name not in self.attributes:
            raise BadFile(f"{self.tag} has no {name}", "save the file again")
        return self.attributes[name]


def parse(data: bytes) -> Element:
    """The root element.

    Raises BadFile: it is no XML, declares a document type, or is nested too deeply or too large.
    """
    top = Element("", {})
    stack = [top]
    count = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if len(stack) > MAX_DEPTH or count > MAX_ELEMENTS:
            raise BadFile("the XML is nested too deeply or has too many parts", "save the file again, or divide it")
        one = Element(tag, attributes)
        stack[-1].children.append(one)
        stack.append(one)

    def end(_tag: str) -> None:
        stack.pop()

    def text(piece: str) -> None:
        stack[-1].pieces.append(piece)

    def doctype(*_: object) -> None:
        raise BadFile("the XML declares a document type", "leave it out: entities are not supported")

    check_count(data, "=", MAX_ATTRIBUTES, "attributes")
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, ValueError, LookupError) as error:  # LookupError: unknown encoding
        raise BadFile(f"this is no XML: {error}", "save the file again") from error
    return top.children[0]


_NOTES_TYPE = "notes"
_XSI = "http://www.w3.org/2001/XMLSchema-instance"
_SCHEMA = "http://www.mpi.nl/tools/elan/EAFv3.0.xsd"
_LANGUAGE = {
    "LANG_DEF": "http://cdb.iso.org/lg/CDB-00130975-001", "LANG_ID": "und", "LANG_LABEL": "undetermined (und)"
}  # fmt: skip
_MAX_PARENTS = 32
_POINTS = re.compile(r"points(?: \d+)?")


def write(annotation: Annotation) -> bytes:
    """EAF 3.0. Raises BadOption: more than 100 marks overlap."""
    return _EafWriter(annotation).bytes()


class _EafWriter:
    def __init__(self, annotation: Annotation) -> None:
        self._annotation = annotation
        self._slots: list[int] = []
        self._count = 0
        self._tiers: list[ET.Element] = []
        for number_, layer in enumerate(annotation.layers):
            for part, marks in enumerate(split_into_tiers(layer, self._span), 1):
                self._tier(layer, _type(layer, number_), part, marks)

    def bytes(self) -> bytes:
        root = ET.Element(
            "ANNOTATION_DOCUMENT",
            {"AUTHOR": "", "DATE": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), "FORMAT": "3.0",
             "VERSION": "3.0", "xmlns:xsi": _XSI, "xsi:noNamespaceSchemaLocation": _SCHEMA},
        )  # fmt: skip
        header = ET.SubElement(root, "HEADER", {"MEDIA_FILE": "", "TIME_UNITS": "milliseconds"})
        ET.SubElement(header, "PROPERTY", {"NAME": "lastUsedAnnotationId"}).text = str(self._count)
        order = ET.SubElement(root, "TIME_ORDER")
        for at, time_ms in sorted(enumerate(self._slots, 1), key=lambda one: one[1]):
            ET.SubElement(order, "TIME_SLOT", {"TIME_SLOT_ID": f"ts{at}", "TIME_VALUE": str(time_ms)})
        root.extend(self._tiers)
        self._types(root)
        return ET.tostring(root, encoding="utf-8", xml_declaration=True)

    def _span(self, mark: AnnotationMark) -> tuple[int, int]:
        """Milliseconds, at least one long."""
        start, end = (round(1000 * at / self._annotation.rate_hz) for at in (mark.start_sample, mark.end_sample))
        return start, max(end, start + 1)

    def _tier(self, layer: AnnotationLayer, type_: str, part: int, marks: Iterable[AnnotationMark]) -> None:
        name = _clean(tier_name(layer.name, part))
        tier = ET.Element("TIER", {"LINGUISTIC_TYPE_REF": type_, "TIER_ID": name})
        self._tiers.append(tier)
        notes = ET.Element(
            "TIER",
            {"LINGUISTIC_TYPE_REF": _NOTES_TYPE, "PARENT_REF": name, "TIER_ID": _clean(notes_name(layer.name, part))},
        )
        for mark in marks:
            self._slots += self._span(mark)
            slots = {"TIME_SLOT_REF1": f"ts{len(self._slots) - 1}", "TIME_SLOT_REF2": f"ts{len(self._slots)}"}
            owner = self._value(tier, "ALIGNABLE_ANNOTATION", slots, mark.label)
            if mark.note:
                self._value(notes, "REF_ANNOTATION", {"ANNOTATION_REF": owner}, mark.note)
        if len(notes):
            self._tiers.append(notes)

    def _value(self, tier: ET.Element, tag: str, attributes: dict[str, str], text: str) -> str:
        self._count += 1
        name = f"a{self._count}"
        one = ET.SubElement(ET.SubElement(tier, "ANNOTATION"), tag, {"ANNOTATION_ID": name, **attributes})
        ET.SubElement(one, "ANNOTATION_VALUE").text = _clean(text)
        return name

    def _types(self, root: ET.Element) -> None:
        layers = self._annotation.layers
        for type_ in dict.fromkeys(_type(layer, number_) for number_, layer in enumerate(layers)):
            vocabulary = {"CONTROLLED_VOCABULARY_REF": f"cv {type_}"} if " " in type_ else {}
            ET.SubElement(
                root,
                "LINGUISTIC_TYPE",
                {**vocabulary, "GRAPHIC_REFERENCES": "false", "LINGUISTIC_TYPE_ID": type_, "TIME_ALIGNABLE": "true"},
            )
        if any(mark.note for layer in layers for mark in layer.marks):
            ET.SubElement(
                root,
                "LINGUISTIC_TYPE",
                {"CONSTRAINTS": "Symbolic_Association", "GRAPHIC_REFERENCES": "false",
                 "LINGUISTIC_TYPE_ID": _NOTES_TYPE, "TIME_ALIGNABLE": "false"},
            )  # fmt: skip
        ET.SubElement(root, "LANGUAGE", _LANGUAGE)
        described = {"DESCRIPTION": "1-1 association with a parent annotation", "STEREOTYPE": "Symbolic_Association"}
        ET.SubElement(root, "CONSTRAINT", described)
        for number_, layer in enumerate(layers):
            if layer.labels:
                self._vocabulary(root, f"cv {_type(layer, number_)}", layer.labels)

    def _vocabulary(self, root: ET.Element, name: str, labels: Iterable[str]) -> None:
        vocabulary = ET.SubElement(root, "CONTROLLED_VOCABULARY", {"CV_ID": name})
        ET.SubElement(vocabulary, "DESCRIPTION", {"LANG_REF": "und"})
        for at, label in enumerate(labels, 1):
            entry = ET.SubElement(vocabulary, "CV_ENTRY_ML", {"CVE_ID": f"{name} {at}"})
            ET.SubElement(entry, "CVE_VALUE", {"LANG_REF": "und"}).text = _clean(label)


def read(data: bytes, rate_hz: int, samples: int) -> Annotation:
    """Every tier as a layer; annotations without times get those shown by ELAN.

    Raises BadFile: it is no EAF, is larger than 16 MB, or an annotation has no time within the sound.
    """
    grid = SampleGrid(rate_hz, samples)
    root = parse(check_size(data))
    if root.tag != "ANNOTATION_DOCUMENT":
        raise BadFile(f"this is {root.tag[:40]}, not an EAF", "ELAN writes them: Save")
    header = root.first("HEADER")
    if header and header.attributes.get("TIME_UNITS", "milliseconds") != "milliseconds":
        raise BadFile("the times of this EAF are not in milliseconds", "save it with ELAN")
    times = _Times(root, 1000.0 * samples / rate_hz)
    labels = _labels(root)
    tiers: list[MarkTier] = []
    sets: dict[str, tuple[str, ...]] = {}
    for tier in root.all("TIER"):
        name, type_ = unix_newlines(tier.need("TIER_ID")), tier.attributes.get("LINGUISTIC_TYPE_REF", "")
        kind: Kind = "points" if _POINTS.fullmatch(times.type_of(tier)) else "regions"
        tiers.append(MarkTier(name, kind, tuple(_mark(one, kind, times, grid) for one in _annotations(tier))))
        sets[name] = labels.get(type_, ())
    return grid.annotation(
        replace(layer, labels=sets.get(tier_name(layer.name, 1), sets.get(layer.name, ())))
        for layer in layers_from_tiers(tiers)
    )


class _Times:
    """Times of annotations in ms of the sound.

    As ELAN shows them: time slots without a time are spaced evenly between those of the annotations around them (the
    first and last of the file between the sound's ends), annotations of a symbolic subdivision share their parent's
    time evenly, other dependent ones have all of it, and ``TIME_ORIGIN`` is the time zero's position in the sound.
    """

    def __init__(self, root: Element, sound_ms: float) -> None:
        order = root.first("TIME_ORDER")
        slots = list(order.all("TIME_SLOT")) if order else []
        written = {one.need("TIME_SLOT_ID"): one.attributes.get("TIME_VALUE") for one in slots}
        self._slots = {slot: None if at is None else parse_number(at, slot) for slot, at in written.items()}
        self._tiers = {one.need("TIER_ID"): one for one in root.all("TIER")}
        self._annotations = {
            one.need("ANNOTATION_ID"): one for tier in self._tiers.values() for one in _annotations(tier)
        }
        types = {one.need("LINGUISTIC_TYPE_ID"): one.attributes for one in root.all("LINGUISTIC_TYPE")}
        self._shares: dict[str, tuple[int, int]] = {}  # position among, and number of, those that share a parent's time
        for tier in self._tiers.values():
            type_ = types.get(tier.attributes.get("LINGUISTIC_TYPE_REF", ""), {})
            self._share(_annotations(tier), type_.get("CONSTRAINTS") == "Symbolic_Subdivision")
            self._place_slots(_annotations(tier))
        self._origin_ms = _origin_ms(root)
        self._place_slots_in_order(sound_ms)

    def type_of(self, tier: Element) -> str:
        """The linguistic type of the tier with the times: itself, or the one it depends on."""
        for _ in range(_MAX_PARENTS):
            parent = self._tiers.get(tier.attributes.get("PARENT_REF", ""))
            if parent is None:
                break
            tier = parent
        return tier.attributes.get("LINGUISTIC_TYPE_REF", "")

    def of(self, one: Element) -> tuple[float, float]:
        """Start and end of an annotation. Raises BadFile where it has none."""
        where = one.attributes.get("ANNOTATION_ID", "an annotation")
        shares: list[tuple[int, int]] = []
        for _ in range(_MAX_PARENTS):
            if one.tag == "ALIGNABLE_ANNOTATION":
                start, end = (self._slots.get(one.need(f"TIME_SLOT_REF{edge}")) for edge in (1, 2))
                if start is None or end is None:
                    raise BadFile(f"the annotation {where[:40]} has no time", "give it one in ELAN, and save it")
                for at, count in reversed(shares):
                    length = end - start
                    start, end = start + length * at / count, start + length * (at + 1) / count
                return start + self._origin_ms, end + self._origin_ms
            shares.append(self._shares.get(one.attributes.get("ANNOTATION_ID", ""), (0, 1)))
            parent = self._annotations.get(one.need("ANNOTATION_REF"))
            if parent is None:
                break
            one = parent
        raise BadFile(f"the annotation {where[:40]} has no time", "save the file with ELAN")

    def _share(self, annotations: list[Element], is_subdivision: bool) -> None:
        """Order the annotations of each parent by their references to the previous one."""
        families: dict[str, list[Element]] = {}
        for one in annotations:
            if one.tag == "REF_ANNOTATION":
                families.setdefault(one.need("ANNOTATION_REF"), []).append(one)
        for family in families.values():
            if not is_subdivision and not any("PREVIOUS_ANNOTATION" in one.attributes for one in family):
                continue
            ids = [one.need("ANNOTATION_ID") for one in family]
            after = {one.attributes.get("PREVIOUS_ANNOTATION", ""): name for one, name in zip(family, ids, strict=True)}
            ordered = [next((i for i, one in zip(ids, family, strict=True) if not _has_previous(one, ids)), ids[0])]
            while (following := after.get(ordered[-1])) is not None and len(ordered) < len(ids):
                ordered.append(following)
            if len(set(ordered)) < len(ids):  # no chain of all: in file order
                ordered = ids
            self._shares |= {name: (at, len(ids)) for at, name in enumerate(ordered)}

    def _place_slots(self, annotations: list[Element]) -> None:
        """In each chain of annotations, space slots without a time evenly between slots with one."""
        after = {
            one.need("TIME_SLOT_REF1"): one.need("TIME_SLOT_REF2")
            for one in annotations
            if one.tag == "ALIGNABLE_ANNOTATION"
        }
        for first in [slot for slot in after if self._slots.get(slot) is not None]:
            chain = [first, after[first]]
            while self._slots.get(chain[-1]) is None and chain[-1] in after and len(chain) <= len(after):
                chain.append(after[chain[-1]])
            self._spread(chain)

    def _place_slots_in_order(self, sound_ms: float) -> None:
        """Space the remaining slots evenly between their neighbours in slot order, or the sound's ends."""
        known = [at for at in self._slots.values() if at is not None]
        if not known:
            return
        first, last = -self._origin_ms, max(sound_ms - self._origin_ms, *known, 0.0)
        chain: list[str] = []
        self._slots = {"": first, **self._slots, " ": last}  # no id is empty or blank
        for slot, at in list(self._slots.items()):
            chain.append(slot)
            if at is not None:
                self._spread(chain)
                chain = [slot]

    def _spread(self, chain: list[str]) -> None:
        if len(chain) < 3:
            return
        start, end = self._slots[chain[0]], self._slots.get(chain[-1])
        if start is None or end is None:
            return
        for at, slot in enumerate(chain[1:-1], 1):
            self._slots[slot] = start + (end - start) * at / (len(chain) - 1)


def _has_previous(one: Element, among: Iterable[str]) -> bool:
    return one.attributes.get("PREVIOUS_ANNOTATION", "") in among


def _origin_ms(root: Element) -> float:
    """``TIME_ORIGIN`` of the header's first sound, or of its first medium."""
    header = root.first("HEADER")
    media = list(header.all("MEDIA_DESCRIPTOR")) if header else []
    media.sort(key=lambda one: not one.attributes.get("MIME_TYPE", "").startswith("audio/"))
    return parse_number(media[0].attributes.get("TIME_ORIGIN", "0") or "0", "TIME_ORIGIN") if media else 0.0


def _annotations(tier: Element) -> list[Element]:
    return [one for holder in tier.all("ANNOTATION") for one in holder.children[:1]]


def _mark(one: Element, kind: Kind, times: _Times, grid: SampleGrid) -> AnnotationMark:
    where = one.attributes.get("ANNOTATION_ID", "an annotation")[:40]
    start_ms, end_ms = times.of(one)
    start = grid.sample(start_ms / 1000.0, where)
    # The millisecond of a point at the very end is after the sound.
    end = start if kind == "points" else grid.sample(end_ms / 1000.0, where)
    value = one.first("ANNOTATION_VALUE")
    if end < start or end_ms < start_ms:
        raise BadFile(f"the annotation {where} ends before it begins", "save the file with ELAN")
    if kind == "regions" and start == end and end_ms > start_ms:
        start = max(0, end - 1)  # a region of less than a millisecond at the very end
    return AnnotationMark(start, end, unix_newlines(value.text) if value else "")


def _labels(root: Element) -> Mapping[str, tuple[str, ...]]:
    """Label sets by linguistic type, from controlled vocabularies."""
    vocabularies = {one.need("CV_ID"): _entries(one) for one in root.all("CONTROLLED_VOCABULARY")}
    types = {one.need("LINGUISTIC_TYPE_ID"): one.attributes for one in root.all("LINGUISTIC_TYPE")}
    return {name: vocabularies.get(of.get("CONTROLLED_VOCABULARY_REF", ""), ()) for name, of in types.items()}


def _entries(vocabulary: Element) -> tuple[str, ...]:
    """The first value of each entry; in older files the entry itself."""
    values = [one.first("CVE_VALUE") for one in vocabulary.all("CV_ENTRY_ML")]
    values += list(vocabulary.all("CV_ENTRY"))
    return tuple(dict.fromkeys(unix_newlines(one.text) for one in values if one and one.text.strip()))


def _type(layer: AnnotationLayer, number_: int) -> str:
    """``regions`` or ``points``, with a number for a layer with a label set."""
    return f"{layer.kind} {number_ + 1}" if layer.labels else layer.kind


def _clean(text: str) -> str:
    """Replace two characters that XML 1.0 forbids."""
    return text.translate({0xFFFE: 0xFFFD, 0xFFFF: 0xFFFD})
