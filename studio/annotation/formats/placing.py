"""What every reader does with what it finds: times become samples of this sound, texts lose Windows' line ends."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from studio.annotation.layers import Annotation, Layer
from studio.core.errors import BadFile, BadOption

MAX_BYTES = 16_000_000
MAX_LAYERS = 500

GRACE_S = 0.002  # files in milliseconds may round the end of a sound up, and give its last mark a length
_DECIMAL = re.compile(r"[-+]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][-+]?\d{1,4})?", re.ASCII)


@dataclass(frozen=True)
class Placing:
    """The sound that a file is to lie on: ``samples`` samples at ``rate_hz``.

    Args:
        grace_s: what lies no further behind the end is taken to lie at the end.
    """

    rate_hz: int
    samples: int
    grace_s: float = GRACE_S

    def sample(self, at_s: float, where: str) -> int:
        """The sample nearest to a time.

        Args:
            where: names the mark in messages.

        Raises:
            BadFile: the time is no finite number, negative, or further behind the sound's end than it may.
        """
        length_s = self.samples / self.rate_hz
        if not math.isfinite(at_s):
            raise BadFile(f"{where} lies at {at_s}", "times are finite numbers of seconds")
        if at_s < 0:
            raise BadFile(f"{where} lies at {at_s:g} s, before the sound", "times begin with 0")
        if at_s > length_s + self.grace_s:
            raise BadFile(
                f"{where} lies at {at_s:.3f} s, and the sound ends at {length_s:.3f} s", "give the file of this sound"
            )
        return min(round(at_s * self.rate_hz), self.samples)

    def annotation(self, layers: Iterable[Layer]) -> Annotation:
        """What was read, as a whole. Raises BadFile: a mark, a name or a text cannot be kept, or there are too many."""
        found = tuple(layers)
        if len(found) > MAX_LAYERS:
            raise BadFile(f"the file holds {len(found):,} layers", f"at most {MAX_LAYERS} are taken")
        try:
            return Annotation(self.rate_hz, self.samples, found).checked()
        except BadOption as error:
            raise BadFile(error.what, error.do) from error


def bounded(data: bytes) -> bytes:
    """The same bytes. Raises BadFile: they are more than 16 MB."""
    if len(data) > MAX_BYTES:
        raise BadFile(f"the file has {len(data):,} bytes", f"at most {MAX_BYTES:,} are taken")
    return data


def decoded(data: bytes) -> str:
    """Text in UTF-8, or in UTF-16 with its mark, with line feeds for line ends. Raises BadFile: it is in neither."""
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = bounded(data).decode(encoding)
    except UnicodeDecodeError as error:
        raise BadFile("the file is in neither UTF-8 nor UTF-16", "save it as UTF-8") from error
    if "\0" in text:
        raise BadFile("the file holds NUL characters, so it is no text", "export it again")
    return unix(text)


def unix(text: str) -> str:
    """The same text with line feeds for line ends."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def number(text: str, where: str) -> float:
    """A decimal number, with a point or a comma. Raises BadFile: it is none; one beyond every double is infinite."""
    written = text.strip()
    if len(written) > 60 or not _DECIMAL.fullmatch(written):
        raise BadFile(f"{where}: {written[:40]!r} is no number", "write a time such as 1.25")
    return float(written.replace(",", "."))
