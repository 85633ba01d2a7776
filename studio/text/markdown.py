"""Text of a language model as a person would read it aloud: without the marks of Markdown, HTML and reasoning."""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from html import unescape

from markdown_it import MarkdownIt
from markdown_it.token import Token

_ENDS = (".", "!", "?", ":", ";", ",", "…")
# What a model writes for itself, also where the answer breaks off within it.
_REASONING = re.compile(
    r"<(think|thinking|reasoning|analysis)\b[^<>]{0,200}>.*?(?:</\1\s{0,20}>|\Z)", re.DOTALL | re.IGNORECASE
)
_PRODUCT = re.compile(r"(?<=\d)\*(?=\d)")  # Markdown would take two of them for emphasis
_CHECKBOX = re.compile(r"\[[ xX]\]\s+")  # of a task in a list
_SPEECH_BREAK = re.compile(r"</?(?:p|br|li|tr|h[1-6]|div|blockquote)\b", re.IGNORECASE)


def spoken_markdown(text: str) -> str:
    """The text without Markdown: emphasis, headings, lists, tables, links, code spans, HTML tags and reasoning.

    Of a link and of a picture their text is left, of a table its cells row by row, of a block of code nothing.
    Headings, items and rows end like sentences, so that the voice pauses behind them. Numbers of lists are kept.
    """
    text = _PRODUCT.sub("×", _REASONING.sub(" ", text))
    return "\n".join(_blocks(_parser().parse(text))).strip()


@lru_cache
def _parser() -> MarkdownIt:
    # Four spaces before a line are more often a copied text than code.
    return MarkdownIt("commonmark", {"maxNesting": 20}).enable(["table", "strikethrough"]).disable("code")


def _blocks(tokens: Sequence[Token]) -> Iterable[str]:
    """Each paragraph, heading, item or row of a table."""
    number, is_item = "", False  # of the next paragraph, in an ordered list; whether it begins an item
    row: list[str] | None = None
    is_ended = 0  # within so many headings and items, which end like sentences
    for token in tokens:
        match token.type:
            case "list_item_open":
                number, is_item = f"{token.info}. " if token.info else "", True
                is_ended += 1
            case "heading_open":
                is_ended += 1
            case "heading_close" | "list_item_close":
                is_ended -= 1
            case "tr_open":
                row = []
            case "tr_close":
                yield _ended(", ".join(filter(None, row or [])))
                row = None
            case "inline" if row is not None:
                row.append(_inline(token.children or []))
            case "inline":
                block = _inline(token.children or [])
                if is_item and (box := _CHECKBOX.match(block)):
                    block = block[box.end() :]
                block = number + block
                number, is_item = "", False
                yield _ended(block) if is_ended else block
            case "html_block":
                yield _without_tags(token.content)
            case _:
                pass


def _inline(tokens: Sequence[Token]) -> str:
    pieces: dict[str, Callable[[Token], str]] = {
        "text": lambda token: token.content,
        "code_inline": lambda token: token.content,
        "softbreak": lambda token: "\n",
        "hardbreak": lambda token: "\n",
        "html_inline": lambda token: " " if _SPEECH_BREAK.match(token.content) else "",
        "image": lambda token: token.content,
    }
    return "".join(pieces[token.type](token) for token in tokens if token.type in pieces)


def _without_tags(html: str) -> str:
    return unescape(re.sub(r"<!--.*?-->|<[^<>]*>", " ", html, flags=re.DOTALL)).strip()


def _ended(block: str) -> str:
    """A block that the voice ends like a sentence."""
    block = block.rstrip()
    return block if not block or block.endswith(_ENDS) else f"{block}."
