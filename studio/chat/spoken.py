"""A reply as a person would read it aloud, while its pieces come."""

import re

from studio.text.markdown import spoken_markdown

_MARK = re.compile(r"[*_`~<>|\[\]\\#]")
# A line that has to be read whole: a heading, an item, a quotation, a row of a table.
_LINE_MARK = re.compile(r"\s*(?:#|[-+*>|]|\d{1,9}[.)](?:\s|$)|$)")
_OPEN = re.compile(r"<(think|thinking|reasoning|analysis)\b", re.IGNORECASE)
_FENCE = re.compile(r"^\s*(```|~~~)", re.MULTILINE)


class SpokenReply:
    """Takes the pieces of a reply and returns what can be spoken of it; see ``spoken_markdown``.

    Plain words pass at once. Marks are held until they are closed; headings, items and rows until their line is
    complete; tables, code and reasoning until their end.
    """

    def __init__(self) -> None:
        self._held = ""
        self._is_line_begin = True

    def feed(self, piece: str) -> str:
        """Text that can be spoken now; it ends with white space."""
        self._held += piece
        out = ""
        while (cut := self._cut()) is not None:
            part, self._held = self._held[:cut], self._held[cut:]
            out += self._spoken(part)
        return out

    def end(self) -> str:
        """The rest."""
        part, self._held = self._held, ""
        return self._spoken(part)

    def _cut(self) -> int | None:
        """How many characters can be spoken; None if more have to come."""
        held = self._held
        if not held.strip():
            return None
        if (tag := _OPEN.search(held)) is not None:
            close = re.compile(rf"</{tag[1]}\s{{0,20}}>", re.IGNORECASE).search(held, tag.end())
            return None if close is None else close.end()
        line_end = held.find("\n") + 1
        if self._is_line_begin:
            start = len(held) - len(held.lstrip("\n"))
            if (fence := _FENCE.match(held, start)) is not None:
                close = re.compile(rf"^\s*{fence[1]}[^\S\n]*\n", re.MULTILINE).search(held, fence.end())
                return None if close is None else close.end()
            if held[start:].lstrip().startswith("|"):
                end = re.compile(r"\n(?!\s*\|)").search(held, start)
                return None if end is None or end.end() == len(held) else end.end()
            if _LINE_MARK.match(held, start):
                return held.find("\n", start) + 1 or None
        if line_end:
            return line_end
        words = held[: re.search(r"\s?\S*\Z", held).start()]  # pyright: ignore[reportOptionalMemberAccess]
        if not words or (_MARK.search(words) and _MARK.search(spoken_markdown(words))):
            return None
        return len(words)

    def _spoken(self, part: str) -> str:
        was_begin, self._is_line_begin = self._is_line_begin, part.endswith("\n")
        has_marks = _MARK.search(part) or (was_begin and _LINE_MARK.match(part.lstrip("\n")))
        text = spoken_markdown(part) if has_marks else part.strip()
        return f"{text}\n" if text and part.endswith("\n") else f"{text} " if text else ""
