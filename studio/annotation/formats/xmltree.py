"""Parse untrusted XML into a tree: no document type and entities, limited depth and size."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from studio.core.errors import BadFile

MAX_DEPTH = 32
MAX_ELEMENTS = 400_000


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

    Raises:
        BadFile: it is no XML, declares a document type, or is nested too deeply or too large.
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
