"""A subset of SSML: a text becomes parts of plain text with pauses between them."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from xml.etree.ElementTree import Element, ParseError

from studio.core.errors import BadText, needs
from studio.text import numbers

MAX_PAUSE_MS, MAX_PARTS = 10_000.0, 100
_MAX_DEPTH = 20  # of tags within tags
_STRENGTH_MS = {"none": 0.0, "x-weak": 100.0, "weak": 200.0, "medium": 400.0, "strong": 700.0, "x-strong": 1200.0}
_TIME = re.compile(r"(\d{1,6}(?:\.\d{1,6})?|\.\d{1,6})(ms|s)")
_BREAK = re.compile(r"""<break(?:\s{1,9}(time|strength)\s{0,9}=\s{0,9}["']([^"'<>]{0,20})["'])?\s{0,9}/>""")
_TAGS: dict[str, frozenset[str]] = {  # with their attributes
    "speak": frozenset({"version", "lang"}),
    "p": frozenset({"lang"}),
    "s": frozenset({"lang"}),
    "break": frozenset({"time", "strength"}),
    "sub": frozenset({"alias"}),
    "say-as": frozenset({"interpret-as", "format", "detail"}),
}
_ENDS = (".", "!", "?", ":", ";", ",", "…")


@dataclass(frozen=True)
class SpokenPart:
    """Text, and the silence after it."""

    text: str
    pause_ms: float = 0.0


def read_ssml(text: str) -> list[SpokenPart]:
    """The parts of an SSML document, or of text with tags that ``<speak>`` would hold.

    Paragraphs and sentences end like sentences. Document types and entities of one's own are refused.

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
    except (ParseError, UnicodeEncodeError) as error:  # half a pair of surrogates is no character of XML
        raise BadText(f"the SSML is not well-formed: {error}", "close every tag, and write &amp; for &") from error
    except DefusedXmlException as error:
        raise BadText("the SSML declares a document type or entities", "leave out <!DOCTYPE ...>") from error
    parts = [SpokenPart("")]
    for one in _spoken(root):
        last = parts[-1]
        if not isinstance(one, str):
            parts[-1] = SpokenPart(last.text, min(last.pause_ms + one, MAX_PAUSE_MS))
        elif last.pause_ms and one.strip():
            parts.append(SpokenPart(one))
        else:
            parts[-1] = SpokenPart(last.text + one, last.pause_ms)
    if not any(part.text.strip() for part in parts):
        raise BadText("the SSML holds nothing to speak", "give some text")
    if len(parts) > MAX_PARTS:
        raise BadText(f"the SSML has {len(parts)} parts", f"give at most {MAX_PARTS - 1} breaks")
    return [SpokenPart(re.sub(r"\s+", " ", part.text).strip(), part.pause_ms) for part in parts]


def split_breaks(text: str) -> list[SpokenPart]:
    """The parts of a plain text between tags ``<break time="1s"/>``, the only ones that are read.

    Raises BadText: a time is not allowed, or there are too many breaks.
    """
    parts, at = list[SpokenPart](), 0
    for tag in _BREAK.finditer(text):
        pause_ms = _pause_ms(Element("break", {tag[1]: tag[2]} if tag[1] else {}))
        parts.append(SpokenPart(text[at : tag.start()].strip(), pause_ms))
        at = tag.end()
    if len(parts) >= MAX_PARTS:
        raise BadText(f"the text has {len(parts)} breaks", f"give at most {MAX_PARTS - 1}")
    return [*parts, SpokenPart(text[at:].strip() if parts else text)]


def _spoken(element: Element, depth: int = 1) -> Iterator[str | float]:
    """Texts, and pauses in milliseconds. Raises BadText."""
    if depth > _MAX_DEPTH:
        raise BadText("the SSML has too many tags within tags", f"give at most {_MAX_DEPTH}")
    name = _checked(element)
    if name == "break":
        yield _pause_ms(element)
    elif name == "sub":
        yield element.get("alias", "")
    elif name == "say-as":
        yield _said_as(element)
    else:
        yield element.text or ""
        last: str = element.text or ""
        for child in element:
            for one in _spoken(child, depth + 1):
                last = one if isinstance(one, str) and one.strip() else last
                yield one
            tail = child.tail or ""
            last = tail if tail.strip() else last
            yield tail
        if name in ("p", "s"):
            yield " " if not last.strip() or last.rstrip().endswith(_ENDS) else ". "


def _checked(element: Element) -> str:
    """The name of a tag of the subset, without its namespace. Raises BadText."""
    name = _local(element.tag)
    if name not in _TAGS:
        raise BadText(f"the tag <{name[:40]}> is not supported", f"use {', '.join(f'<{one}>' for one in _TAGS)}")
    unknown = sorted({_local(one) for one in element.attrib} - _TAGS[name] - {"schemaLocation"})
    if unknown:
        known = ", ".join(sorted(_TAGS[name]))
        raise BadText(f"<{name}> has no attribute {unknown[0][:40]!r}", f"use {known}")
    if name in ("break", "sub", "say-as") and len(element):
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
