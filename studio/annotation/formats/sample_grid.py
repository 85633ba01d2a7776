"""Shared by the readers: times to samples of the sound, decoding, sizes and numbers."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from studio.annotation.layers import Annotation, AnnotationLayer
from studio.core.errors import BadFile, BadOption

MAX_BYTES = 16_000_000
MAX_LAYERS = 500

GRACE_S = 0.002  # formats in milliseconds may round the end of the sound up
_DECIMAL = re.compile(r"[-+]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][-+]?\d{1,4})?", re.ASCII)


@dataclass(frozen=True)
class SampleGrid:
    """The annotated sound: ``samples`` samples at ``rate_hz``. Times up to ``grace_s`` after its end are clipped."""

    rate_hz: int
    samples: int
    grace_s: float = GRACE_S

    def sample(self, at_s: float, where: str) -> int:
        """The sample nearest to a time.

        Args:
            where: the mark's name in messages.

        Raises:
            BadFile: the time is not finite, negative, or too far after the end.
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

    def annotation(self, layers: Iterable[AnnotationLayer]) -> Annotation:
        """The annotation of these layers. Raises BadFile where it is invalid or has too many layers."""
        found = tuple(layers)
        if len(found) > MAX_LAYERS:
            raise BadFile(f"the file holds {len(found):,} layers", f"at most {MAX_LAYERS} are read")
        try:
            return Annotation(self.rate_hz, self.samples, found).validated()
        except BadOption as error:
            raise BadFile(error.what, error.do) from error


def check_size(data: bytes) -> bytes:
    """Return ``data``. Raises BadFile where it exceeds 16 MB."""
    if len(data) > MAX_BYTES:
        raise BadFile(f"the file has {len(data):,} bytes", f"at most {MAX_BYTES:,} are read")
    return data


def decode_text(data: bytes) -> str:
    """Decode UTF-8, or UTF-16 with a BOM, with Unix line ends. Raises BadFile."""
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = check_size(data).decode(encoding)
    except UnicodeDecodeError as error:
        raise BadFile("the file is in neither UTF-8 nor UTF-16", "save it as UTF-8") from error
    if "\0" in text:
        raise BadFile("the file holds NUL characters, so it is no text", "export it again")
    return unix_newlines(text)


def unix_newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def parse_number(text: str, where: str) -> float:
    """A decimal number, with a point or a comma; infinite beyond the range of a double. Raises BadFile."""
    written = text.strip()
    if len(written) > 60 or not _DECIMAL.fullmatch(written):
        raise BadFile(f"{where}: {written[:40]!r} is not a number", "write a time such as 1.25")
    return float(written.replace(",", "."))
