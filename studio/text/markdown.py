"""Removes Markdown, HTML and reasoning from a language model's text, so that it can be read aloud.

The text may come in pieces that are cut anywhere. Lines are classified here, as far as speech needs it; constructs
inside a line (code spans, links, pictures, tags, entities) are parsed by markdown-it as soon as they are complete.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from markdown_it import MarkdownIt

from studio.text.markdown_constructs import MAX_HELD_CHARS, HiddenText, is_construct_open, without_emphasis

_MAX_WORD_CHARS = 4096
_MAX_LINE_CHARS = 4096  # of a row of a table; a longer one is passed on in parts
_ENDS = (".", "!", "?", ":", ";", ",", "…")

_WORD = re.compile(r"(\S*)([^\S\n]+|\n)")
_PREFIX = re.compile(r"[^\S\n]*(?:>[^\S\n]*)*")  # indentation, and marks of a quotation
_HEADING = re.compile(r"#{1,6}(?:\s+|\Z)")
_BULLET = re.compile(r"[-+*](?:\s+(?:\[[ xX]\]\s+)?|\Z)")
_NUMBER = re.compile(r"(\d{1,9})[.)](?:\s+|\Z)")
_FENCE = re.compile(r"`{3,}(?=[^`]*\Z)|~{3,}")
_RULE = re.compile(r"(?=.*[*_=-])[\s|:*_=-]+")  # below a heading or the head of a table, or between paragraphs
_UNDERLINE = re.compile(r"(?:=+|-+|[\s|:-]*\|[\s|:-]*)\s*")
_DEFINITION = re.compile(r"""\[[^\]]{1,300}\]:\s+\S+(?:\s+["'(].*)?\s*""")  # of a link's address
# Starts of a line that the next character may turn into markup.
_UNDECIDED = re.compile(r"[\s|:*_=-]+|[-+*]\s+\[(?:[ xX]\]?)?|\[[^\]]{0,300}(?:\]:?)?|[`~]{3}.*|\[[^\]]{1,300}\]:.*")
_CELL = re.compile(r"(?:\\.|`[^`]*`|[^|\\])+")
_SPECIAL = re.compile(r"[\\`*_~<&\[]")
_PRODUCT = re.compile(r"(?<=\d)\*(?=\d)")  # Markdown would take two of them for emphasis
_SPEECH_BREAK = re.compile(r"</?(?:p|br|li|tr|h[1-6]|div|blockquote)\b", re.IGNORECASE)


def spoken_markdown(text: str) -> str:
    """The text without Markdown: emphasis, headings, lists, tables, links, code spans, HTML tags and reasoning.

    Links and pictures leave their text, tables their cells row by row; blocks of code are dropped. Headings, items and
    rows end like sentences, so that the voice pauses after them. Numbers of lists are kept.
    """
    stream = MarkdownStream()
    return (stream.feed(text) + stream.end()).strip()


class MarkdownStream:
    """``spoken_markdown`` of a text that comes in pieces; the result does not depend on how they are cut.

    A word of a paragraph is passed on when the white space after it arrives. The last word of a line waits for the
    beginning of the next line, and a word of a heading or an item for the next word, since it may get a full stop.
    Code spans, links and tags wait until they are complete, or longer than ``MAX_HELD_CHARS``.
    """

    def __init__(self) -> None:
        self._hidden = HiddenText()
        self._text, self._at = "", 0  # text, and the index from which it is unread
        self._is_line_start = True
        self._fence = ""  # opening fence of the current block of code
        self._quotes = 0  # quotation marks (>) of the last line
        self._is_open = self._is_heading = self._is_item = False  # the current block; open: any, or a paragraph
        self._is_marked = False  # directly after the mark of an item
        self._is_ended = False  # in a block that the voice ends like a sentence
        self._segment = ""  # words with a construct that is not complete
        self._held, self._gap = "", ""  # the last word, and the white space after it

    def feed(self, piece: str) -> str:
        """Append text; returns what can be spoken now."""
        return self._read(self._hidden.feed(piece))

    def flush(self) -> str:
        """The complete word that is held until the next one, without a full stop; the text continues."""
        return "".join(self._release())

    def end(self) -> str:
        """The rest; the text has ended."""
        rest = self._read(self._hidden.end() + "\n")
        return (rest + "".join(self._close_block())).rstrip()

    def _read(self, text: str) -> str:
        self._text, self._at = self._text[self._at :] + text.replace("\r", ""), 0
        spoken: list[str] = []
        while self._at < len(self._text):
            step = self._begin_line() if self._is_line_start else self._read_word()
            if step is None:
                break
            spoken.extend(step)
        return "".join(spoken)

    # --- lines -------------------------------------------------------------------------------------------

    def _begin_line(self) -> Sequence[str] | None:
        """Read the marks that a line begins with, or all of a line without words; None while that is undecided."""
        end = self._text.find("\n", self._at, self._at + _MAX_LINE_CHARS)
        is_whole = end >= 0 or len(self._text) - self._at >= _MAX_LINE_CHARS
        line = self._text[self._at : end if end >= 0 else self._at + _MAX_LINE_CHARS]
        prefix = _PREFIX.match(line)
        rest = line[prefix.end() :] if prefix else line
        has_word = re.search(r"\S\s", rest) and not (self._fence or rest[0] == "|" or _UNDECIDED.fullmatch(rest))
        if not is_whole and not has_word:
            return None
        next_line = self._at + len(line) + (end >= 0)
        if self._fence:
            self._at = next_line
            mark = rest.strip()
            self._fence = "" if mark.startswith(self._fence) and not mark.strip(self._fence[0]) else self._fence
            return ()
        if is_whole and (spoken := self._line(rest)) is not None:
            self._at = next_line
            return spoken
        quotes = line[: len(line) - len(rest)].count(">")
        spoken = self._close_block() if quotes > self._quotes and not self._is_marked else ()
        self._quotes = quotes
        return [*spoken, *self._begin_words(rest, self._at + len(line) - len(rest), len(line) - len(rest))]

    def _line(self, line: str) -> Sequence[str] | None:
        """The spoken text of a whole line without words, or of a row of a table; None for others."""
        if not line.strip():
            return self._close_block()
        if _RULE.fullmatch(line):
            self._is_ended |= _UNDERLINE.fullmatch(line) is not None
            self._is_item = False
            return self._close_block()
        if fence := _FENCE.match(line):
            self._fence = fence[0]
            return self._close_block()
        if not self._is_open and _DEFINITION.fullmatch(line):
            return ()
        if line[0] == "|":
            cells = ", ".join(filter(None, (_inline(cell.strip()).strip() for cell in _CELL.findall(line))))
            return [*self._close_block(), _ended(cells) + "\n"] if cells else self._close_block()
        return None

    def _begin_words(self, line: str, at: int, indent: int) -> Sequence[str]:
        """Read the marks before the words of a line, from index ``at`` of the text."""
        self._at = at
        number = _NUMBER.match(line)
        is_paragraph = self._is_open and not self._is_ended
        if item := _BULLET.match(line) or (number if number and not (is_paragraph and int(number[1]) != 1) else None):
            spoken = () if self._is_marked else self._close_block()
            self._is_open = self._is_item = self._is_marked = self._is_ended = True
            self._held, self._gap = f"{number[1]}." if number else self._held, " "
            self._at += item.end()
            return spoken
        self._is_line_start = False
        if heading := _HEADING.match(line):
            spoken = () if self._is_marked else self._close_block()
            self._is_open = self._is_heading = self._is_ended = True
            self._at += heading.end()
            return spoken
        if not self._is_open:
            self._is_open = True
            self._is_item = self._is_ended = self._is_item and indent >= 2
            return ()
        self._is_marked = False
        if self._segment:
            self._segment += "\n"
        elif self._held and not self._is_ended:
            return self._release()
        return ()

    # --- words -------------------------------------------------------------------------------------------

    def _read_word(self) -> Sequence[str] | None:
        """Read a word and the white space after it; None while that is missing."""
        word = _WORD.match(self._text, self._at, self._at + _MAX_WORD_CHARS)
        if word is None and len(self._text) - self._at < _MAX_WORD_CHARS:
            is_next = bool(self._held) and not self._segment and self._text[self._at].isalnum()
            return self._release() if is_next else None
        text, gap = (word[1], word[2]) if word else (self._text[self._at :][:_MAX_WORD_CHARS], "")
        self._at += len(text + gap)
        self._is_marked = False
        self._is_line_start = gap == "\n"
        self._segment += text
        if len(self._segment) <= MAX_HELD_CHARS and is_construct_open(self._segment) and not self._is_heading:
            self._segment += (
                "" if gap == "\n" or self._segment.endswith(" ") else " "
            )  # white space may come in two pieces
            return ()
        spoken = self._settle(gap if gap in ("", "\n") else " ")
        return [*spoken, *self._close_block()] if self._is_heading and gap == "\n" else spoken

    def _settle(self, gap: str) -> Sequence[str]:
        """Hold the segment's spoken text; returns the words that no longer depend on what follows."""
        spoken, self._segment = _inline(self._segment).strip(), ""
        if not spoken:
            return ()
        before = self._release()
        self._held, self._gap = spoken, gap
        is_settled = spoken.endswith(_ENDS) or (not self._is_ended and gap != "\n")
        return [*before, *self._release()] if is_settled else before

    def _release(self) -> Sequence[str]:
        held, self._held = self._held, ""
        return (held + self._gap,) if held else ()

    def _close_block(self) -> Sequence[str]:
        spoken = self._settle("\n") if self._segment else ()
        if self._held:
            self._held, self._gap = _ended(self._held) if self._is_ended else self._held, "\n"
        self._is_open = self._is_heading = self._is_ended = self._is_marked = False
        return [*spoken, *self._release()]


@lru_cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"maxNesting": 20}).enable("strikethrough")


def _inline(text: str) -> str:
    """The spoken text of complete constructs inside a line."""
    if not _SPECIAL.search(text):
        return text
    pieces: dict[str, Callable[[str], str]] = {
        **dict.fromkeys(("text", "code_inline", "image"), str),
        **dict.fromkeys(("softbreak", "hardbreak"), lambda _: "\n"),
        "html_inline": lambda tag: " " if _SPEECH_BREAK.match(tag) else "",
    }
    tokens = _parser().parseInline(without_emphasis(_PRODUCT.sub("×", text)))[0].children or []
    return "".join(pieces[token.type](token.content) for token in tokens if token.type in pieces)


def _ended(block: str) -> str:
    """A block that the voice ends like a sentence."""
    block = block.rstrip()
    return block if not block or block.endswith(_ENDS) else f"{block}."
