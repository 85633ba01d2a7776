"""Constructs of Markdown that may contain white space: which are complete, and which are never spoken."""

import re

MAX_HELD_CHARS = 500  # of a construct; a longer one is passed on as it is written
_MAX_CLOSING_CHARS = 40

_NAMES = ("think", "thinking", "reasoning", "analysis")
# A model's reasoning, and comments; not `<think>` as code.
_HIDDEN = re.compile(rf"(?<!`)<(?:({'|'.join(_NAMES)})\b[^<>]{{0,200}}>|!--)", re.IGNORECASE)
_HIDDEN_START = re.compile(rf"<(?:{'|'.join(_NAMES)})\b[^<>]{{0,200}}", re.IGNORECASE)

_CONSTRUCT = re.compile(r"\\.|(?P<ticks>`+)|<(?=[A-Za-z/])|\[", re.DOTALL)
_OPEN_TAG = re.compile(
    r"""</?[A-Za-z][\w:-]*(?:\s+[\w:.-]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'|[^\s"'=<>]+))*"""
    r"""(?:\s+[\w:.-]*(?:\s*=\s*(?:"[^"<>]*|'[^'<>]*)?)?)?\s*/?"""
)
_BRACKETS = {"[": re.compile(r"\\.|[\[\]]", re.DOTALL), "(": re.compile(r"\\.|[()]", re.DOTALL)}
_EMPHASIS = re.compile(
    r"\\.|(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`)|<[^<>\s][^<>]*>|\]\([^()\s]*\)|(?P<marks>\*+|_+|~~+)", re.DOTALL
)


class HiddenText:
    """Drops reasoning and comments from a text that comes in pieces, even if the text ends within them."""

    def __init__(self) -> None:
        self._held, self._before = "", ""  # the character before the held text
        self._closing: re.Pattern[str] | None = None  # end of the hidden text that has begun

    def feed(self, piece: str) -> str:
        """Append text; returns the text that is neither hidden nor possibly the beginning of hidden text."""
        self._held += piece
        visible_parts: list[str] = []
        while True:
            if self._closing is not None:
                closing = self._closing.search(self._held)
                if closing is None:
                    self._held = self._held[-_MAX_CLOSING_CHARS:]
                    break
                self._held, self._closing = self._held[closing.end() :], None
                visible_parts.append(" ")
                self._before = " "
            text = self._before + self._held
            opening = _HIDDEN.search(text, len(self._before))
            if opening is None:
                at = self._held.rfind("<")
                visible_parts.append(self._take(at if at >= 0 and _may_hide(self._held[at:]) else len(self._held)))
                break
            visible_parts.append(self._take(opening.start() - len(self._before)))
            closing_text = rf"</{opening[1]}\s{{0,20}}>" if opening[1] else "-->"
            self._held = self._held[opening.end() - opening.start() :]
            self._closing = re.compile(closing_text, re.IGNORECASE)
        return "".join(visible_parts)

    def end(self) -> str:
        """The rest; the text has ended."""
        return "" if self._closing is not None else self._held

    def _take(self, count: int) -> str:
        text, self._held = self._held[:count], self._held[count:]
        self._before = text[-1:] or self._before
        return text


def _may_hide(text: str) -> bool:
    """Whether a text from a ``<`` on may become the beginning of hidden text."""
    name = text[1:].lower()
    is_start = "!--".startswith(name) or any(one.startswith(name) for one in _NAMES)
    return is_start or _HIDDEN_START.fullmatch(text) is not None


def is_construct_open(text: str) -> bool:
    """Whether a text that ends before white space ends inside a code span, a link, a picture or a tag."""
    at = 0
    while construct := _CONSTRUCT.search(text, at):
        at = construct.end()
        if ticks := construct["ticks"]:
            closing = re.compile(f"(?<!`){ticks}(?!`)").search(text, at)
            if closing is None:
                return True
            at = closing.end()
        elif construct[0] == "<" and _OPEN_TAG.fullmatch(text, construct.start()):
            return True
        elif construct[0] == "[":
            end = _closing_bracket(text, construct.start())
            if end and text[end : end + 1] == "(":
                end = _closing_bracket(text, end)
            if not end:
                return True
            at = end
    return False


def _closing_bracket(text: str, start: int) -> int:
    """The index after the bracket that closes the one at ``start``; 0 if there is none."""
    opening, depth = text[start], 0
    for bracket in _BRACKETS[opening].finditer(text, start):
        if bracket[0][0] != "\\":
            depth += 1 if bracket[0] == opening else -1
            if depth == 0:
                return bracket.end()
    return 0


def without_emphasis(text: str) -> str:
    """The text without the marks of emphasis at words' edges; the words between them may be in other texts."""

    def mark(match: re.Match[str]) -> str:
        if not match["marks"]:
            return match[0]
        before, after = text[: match.start()][-1:], text[match.end() : match.end() + 1]
        is_inside = before.isalnum() and after.isalnum()
        is_alone = not before.strip() and not after.strip()
        return match[0] if is_inside or is_alone else ""

    return _EMPHASIS.sub(mark, text)
