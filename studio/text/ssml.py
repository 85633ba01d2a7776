"""A subset of SSML: a text becomes parts of plain text with pauses between them."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol
from xml.etree.ElementTree import Element, ParseError

from studio.core.errors import BadText, needs
from studio.text import numbers
from studio.text.inline_phonemes import pronounced

MAX_PAUSE_MS, MAX_PARTS = 10_000.0, 100
_MAX_DEPTH = 20  # of tags within tags
_STRENGTH_MS = {"none": 0.0, "x-weak": 100.0, "weak": 200.0, "medium": 400.0, "strong": 700.0, "x-strong": 1200.0}
_TIME = re.compile(r"(\d{1,6}(?:\.\d{1,6})?|\.\d{1,6})(ms|s)")
_MAX_BREAK_CHARS = 80
_OPEN_BREAK = re.compile(  # a text that may become a break
    r"""<(?:b(?:r(?:e(?:a(?:k(?:\s{1,9}[a-z]{0,8}(?:\s{0,9}=\s{0,9}(?:["'][^"'<>]{0,20}["']?)?)?\s{0,9})?/?)?)?)?)?)?"""
)
_BREAK = re.compile(r"""<break(?:\s{1,9}(time|strength)\s{0,9}=\s{0,9}["']([^"'<>]{0,20})["'])?\s{0,9}/>""")
_TAGS: dict[str, frozenset[str]] = {  # with their attributes
    "speak": frozenset({"version", "lang"}),
    "p": frozenset({"lang"}),
    "s": frozenset({"lang"}),
    "break": frozenset({"time", "strength"}),
    "sub": frozenset({"alias"}),
    "say-as": frozenset({"interpret-as", "format", "detail"}),
    "prosody": frozenset({"rate"}),
    "phoneme": frozenset({"ph", "alphabet"}),
}
_RATES = {"x-slow": 0.5, "slow": 0.75, "medium": 1.0, "default": 1.0, "fast": 1.3, "x-fast": 1.7}
MIN_RATE, MAX_RATE = 0.5, 2.0
_PERCENT = re.compile(r"([+-]?)(\d{1,4}(?:\.\d{1,4})?)%")
_CLOSING = ".,;:!?…)]}'’”%"  # characters without a space before them
_ENDS = (".", "!", "?", ":", ";", ",", "…")


@dataclass(frozen=True)
class SpokenPart:
    """Text, the pause after it, and its speaking rate: 2 is twice as fast.

    Attributes:
        tag: the tag of the pause in the text as sent; character positions include it.
    """

    text: str
    pause_ms: float = 0.0
    rate: float = 1.0
    tag: str = ""


@dataclass(frozen=True)
class _Spoken:
    """A piece of text within an element, or a pause."""

    text: str = ""
    pause_ms: float = 0.0
    rate: float = 1.0


def read_ssml(text: str) -> list[SpokenPart]:
    """The parts of an SSML document, or of the content of a ``<speak>`` element.

    Paragraphs and sentences end like sentences. Declarations of document types and entities are rejected.

    Raises:
        BadText: the XML is not well-formed, a tag or an attribute is not in the subset, or nothing is spoken.
        NeedsPackage: defusedxml is missing.
    """
    with needs("SSML needs defusedxml, which is not installed", "text"):
        from defusedxml import DefusedXmlException
        from defusedxml.ElementTree import fromstring
    is_document = re.match(r"\s*<(?:\?xml|!DOCTYPE|speak)\b", text)
    document = text.lstrip() if is_document else f"<speak>{text}</speak>"
    try:
        root: Element = fromstring(document, forbid_dtd=True)
    except (ParseError, UnicodeEncodeError) as error:  # a lone surrogate is not an XML character
        raise BadText(f"the SSML is not well-formed: {error}", "close every tag, and write &amp; for &") from error
    except DefusedXmlException as error:
        raise BadText("the SSML declares a document type or entities", "leave out <!DOCTYPE ...>") from error
    parts = [SpokenPart("")]
    for one in _spoken(root):
        last = parts[-1]
        if one.pause_ms:
            parts[-1] = replace(last, pause_ms=min(last.pause_ms + one.pause_ms, MAX_PAUSE_MS))
        elif one.text.strip() and not last.pause_ms and not last.text.strip():
            parts[-1] = SpokenPart(last.text + one.text, rate=one.rate)
        elif one.text.strip() and (last.pause_ms or last.rate != one.rate):
            parts.append(SpokenPart(one.text, rate=one.rate))
        else:
            parts[-1] = replace(last, text=last.text + one.text)
    if not any(part.text.strip() for part in parts):
        raise BadText("the SSML holds nothing to speak", "give some text")
    if len(parts) > MAX_PARTS:
        limit = f"give at most {MAX_PARTS - 1} breaks and changes of rate"
        raise BadText(f"the SSML has {len(parts)} parts", limit)
    return [replace(part, text=re.sub(r"\s+", " ", part.text).strip()) for part in parts]


class PartReader(Protocol):
    """Reads the parts of a text that comes in pieces."""

    def feed(self, text: str) -> Sequence[SpokenPart]:
        """The parts that this text completes; without a pause, the next part continues the last one. Raises BadText."""
        ...

    def end(self) -> Sequence[SpokenPart]:
        """The rest; the text has ended. Raises BadText."""
        ...


class SsmlReader:
    """Reads SSML when the text has ended: a document must be complete."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def feed(self, text: str) -> Sequence[SpokenPart]:
        """Collect the text; returns no parts."""
        self._texts.append(text)
        return ()

    def end(self) -> Sequence[SpokenPart]:
        """All parts, with the spaces between their words. Raises BadText, NeedsPackage: as ``read_ssml``."""
        parts = read_ssml("".join(self._texts))
        following = [part.text[:1] for part in parts[1:]]
        spaces = ["" if not first or first in _CLOSING else " " for first in (*following, "")]
        return [replace(part, text=part.text and part.text + space) for part, space in zip(parts, spaces, strict=True)]


class BreakReader:
    """Reads only the tags ``<break time="1s"/>`` of a plain text, which may come in pieces that are cut anywhere."""

    def __init__(self) -> None:
        self._held, self._count = "", 0

    def feed(self, text: str) -> Sequence[SpokenPart]:
        """Parts up to a possible beginning of a tag. Raises BadText: a time is not allowed, or too many breaks."""
        parts, text, at = list[SpokenPart](), self._held + text, 0
        for tag in _BREAK.finditer(text):
            pause_ms = _pause_ms(Element("break", {tag[1]: tag[2]} if tag[1] else {}))
            if pause_ms:  # a tag without a pause is ignored as other tags are
                parts.append(SpokenPart(text[at : tag.start()], pause_ms, tag=tag[0]))
                at = tag.end()
        self._count += len(parts)
        if self._count >= MAX_PARTS:
            raise BadText(f"the text has {self._count} breaks", f"give at most {MAX_PARTS - 1}")
        rest = text[at:]
        opening = rest.rfind("<", max(0, len(rest) - _MAX_BREAK_CHARS))
        cut = opening if opening >= 0 and _OPEN_BREAK.fullmatch(rest, opening) else len(rest)
        self._held = rest[cut:]
        return [*parts, SpokenPart(rest[:cut])]

    def end(self) -> Sequence[SpokenPart]:
        """The rest."""
        return (SpokenPart(self._held),)


PART_READERS: Mapping[str, Callable[[], PartReader]] = {"ssml": SsmlReader, "breaks": BreakReader}


def _spoken(element: Element, depth: int = 1, rate: float = 1.0) -> Iterator[_Spoken]:
    """Texts and pauses, in order. Raises BadText."""
    if depth > _MAX_DEPTH:
        raise BadText("the SSML has too many tags within tags", f"give at most {_MAX_DEPTH}")
    name = _checked(element)
    if name == "break":
        yield _Spoken(pause_ms=_pause_ms(element))
    elif name == "sub":
        yield _Spoken(element.get("alias", ""), rate=rate)
    elif name == "say-as":
        yield _Spoken(_said_as(element), rate=rate)
    elif name == "phoneme":
        yield _Spoken(_pronounced(element), rate=rate)
    else:
        rate = _rate(element) if name == "prosody" else rate
        yield _Spoken(element.text or "", rate=rate)
        last: str = element.text or ""
        for child in element:
            for one in _spoken(child, depth + 1, rate):
                last = one.text if one.text.strip() else last
                yield one
            tail = child.tail or ""
            last = tail if tail.strip() else last
            yield _Spoken(tail, rate=rate)
        if name in ("p", "s"):
            yield _Spoken(" " if not last.strip() or last.rstrip().endswith(_ENDS) else ". ", rate=rate)


def _checked(element: Element) -> str:
    """The name of a tag of the subset, without its namespace. Raises BadText."""
    name = _local(element.tag)
    if name not in _TAGS:
        raise BadText(f"the tag <{name[:40]}> is not supported", f"use {', '.join(f'<{one}>' for one in _TAGS)}")
    unknown = sorted({_local(one) for one in element.attrib} - _TAGS[name] - {"schemaLocation"})
    if unknown:
        known = ", ".join(sorted(_TAGS[name]))
        raise BadText(f"<{name}> has no attribute {unknown[0][:40]!r}", f"use {known}")
    if name in ("break", "sub", "say-as", "phoneme") and len(element):
        raise BadText(f"<{name}> holds another tag", "give text only")
    return name


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _pause_ms(element: Element) -> float:
    time, strength = element.get("time"), element.get("strength", "medium")
    if time is None:
        if strength not in _STRENGTH_MS:
            raise BadText(f"a break has no strength {strength[:20]!r}", f"use {', '.join(_STRENGTH_MS)}")
        return _STRENGTH_MS[strength]
    match = _TIME.fullmatch(time.strip())
    pause_ms = float(match[1]) * (1.0 if match[2] == "ms" else 1000.0) if match else -1.0
    if not 0.0 <= pause_ms <= MAX_PAUSE_MS:
        raise BadText(f"a break has no time {time[:20]!r}", "use 0s to 10s, or 0ms to 10000ms")
    return pause_ms


def _rate(element: Element) -> float:
    """Speaking rate from a word, a number, a percentage of the usual rate or (with a sign) a change of it."""
    value = element.get("rate", "medium").strip()
    if percent := _PERCENT.fullmatch(value):
        rate = float(percent[2]) / 100.0
        rate = 1.0 + rate * (1 if percent[1] == "+" else -1) if percent[1] else rate
    else:
        rate = _RATES.get(value) or (float(value) if re.fullmatch(r"\d{1,2}(?:\.\d{1,4})?", value) else 0.0)
    if not MIN_RATE <= rate <= MAX_RATE:
        allowed = f"use {', '.join(_RATES)}, or {MIN_RATE:.0%} to {MAX_RATE:.0%}"
        raise BadText(f"<prosody> has no rate {value[:20]!r}", allowed)
    return rate


def _pronounced(element: Element) -> str:
    """The name of a word with its phonemes. Raises BadText: the alphabet, a symbol or the word is not valid."""
    alphabet = element.get("alphabet", "ipa")
    if alphabet not in ("ipa", "x-ipa"):
        raise BadText(f"<phoneme> has no alphabet {alphabet[:20]!r}", "use ipa")
    return pronounced(" ".join((element.text or "").split()), element.get("ph", ""))


def _said_as(element: Element) -> str:
    kind, text = element.get("interpret-as", ""), (element.text or "").strip()
    readings: dict[str, Callable[[str], str]] = {
        "characters": _characters,
        "spell-out": _characters,
        "digits": numbers.digits,
        "telephone": lambda number: ", ".join(numbers.digits(group) for group in re.findall(r"\d+", number)),
        "cardinal": numbers.cardinal,
        "number": numbers.cardinal,
        "ordinal": numbers.ordinal,
        "date": str,  # the normaliser reads both
        "time": str,
    }
    if kind not in readings:
        raise BadText(f"<say-as> has no interpret-as {kind[:40]!r}", f"use {', '.join(readings)}")
    refusal = BadText(f"<say-as interpret-as={kind!r}> holds {text[:40]!r}", "give a number")
    needs_digits = kind in ("digits", "telephone", "cardinal", "number", "ordinal")
    if needs_digits and not re.fullmatch(r"[+\-−]?[\d.,\s()/-]*\d[\d.,\s()/-]*(?:st|nd|rd|th)?", text):
        raise refusal
    try:
        spoken = readings[kind](text)
    except ValueError as error:  # 1/2 as a cardinal
        raise refusal from error
    return f" {spoken} " if kind not in ("date", "time") else text


def _characters(text: str) -> str:
    """Letters and digits one by one; other characters are left out."""
    return " ".join(numbers.digits(char) if char.isdecimal() else char.upper() for char in text if char.isalnum())
