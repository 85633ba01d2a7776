"""``studio words``: the spoken words of a text and their positions in it, without a voice."""

import sys
from typing import Annotated, Any

import typer

from studio.commands.common import Json
from studio.core.errors import BadText
from studio.core.terminal import print_json, print_line
from studio.core.text.language import DEFAULT, in_language
from studio.core.text.livetext import MAX_FIELD_CHARS
from studio.core.text.words import whole_text


def words(
    text: Annotated[str, typer.Argument(help="Text; - reads a pipe.")],
    language: Annotated[str, typer.Option(help="Of the text: en or fr.")] = DEFAULT,
    as_json: Json = False,
) -> None:
    """Print the spoken words of a text with their places in it: characters, the first is 0, the end is not included."""
    from studio.text.normalise import best

    if text == "-":
        from studio.commands.say import read_pipe

        text = "".join(piece.text for piece in _bounded(read_pipe(sys.stdin.fileno())))
    elif len(text) > MAX_FIELD_CHARS:
        raise _too_long()
    changes = whole_text(in_language(best(), language), text)
    if as_json:
        print_json(
            [{"word": one.word, "char_start": one.char_start, "char_end": one.char_end} for one in changes.words]
        )
        return
    for one in changes.words:
        print_line(f"{one.char_start}-{one.char_end}\t{one.word}")
    for span in changes.unsupported:
        print_line(f"left out: {span.char_start}-{span.char_end}: {span.why}", err=True)


def _bounded(arrivals: Any) -> Any:
    chars = 0
    for one in arrivals:
        chars += len(one.text)
        if chars > MAX_FIELD_CHARS:
            raise _too_long()
        yield one


def _too_long() -> BadText:
    return BadText(f"a text holds at most {MAX_FIELD_CHARS:,} characters", "give a shorter one")
