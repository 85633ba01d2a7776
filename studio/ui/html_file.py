"""Self-contained HTML files of an inspection and of a comparison: audio, picture and scripts, nothing to fetch."""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

from studio.core.errors import BadFile
from studio.core.traces.teacher_forcing import TeacherForcingResult, stored_attention
from studio.core.traces.trace import Trace
from studio.inspection.bundle import pack, pack_attention, pack_prosody
from studio.inspection.comparison import bundle as comparison_bundle
from studio.inspection.comparison.compare import UtteranceComparison, pairs_of
from studio.ui.bundle import WIDGETS, bundle

_START = "inspect/file.js"
# The file's own script may run; nothing is fetched except blobs made from it.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; media-src blob:; img-src blob:"
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>{css}
body {{ margin: 0; background: var(--paper); }}
main {{ max-inline-size: 1400px; margin-inline: auto; padding: 20px; }}
.inspect > .open {{ display: none; }}
</style></head><body><main>{html}</main>
{data}
<script type="module">
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.body.classList.toggle("dark", dark.matches);
dark.addEventListener("change", follow);
follow();
{script}
startFile(document.querySelector("main"));
</script></body></html>
"""


def write_inspection(trace: Trace, path: Path, attended: TeacherForcingResult | None = None) -> None:
    """Write the page of one utterance; its title is the file's name where it has no text.

    Raises BadFile: the trace has no valid clock, or the file cannot be written.

    Args:
        attended: attention to draw; by default the attention stored in the trace.
    """
    attended = attended or stored_attention(trace)
    parts = {
        "bundle": pack(trace),
        "prosody": pack_prosody(trace.pcm, trace.rate_hz),
        "attention": pack_attention(attended, trace.p_eos) if attended else b"",
    }
    _write_page(_page(path.stem, parts, _START, "inspect/inspect.html", ["inspect/inspect.css"]), path)


def write_comparison(comparison: UtteranceComparison, path: Path) -> None:
    """Write the page of a comparison; its title is the file's name. Raises BadFile where it cannot be written."""
    parts = {"bundle": comparison_bundle.pack(comparison), "words": comparison_bundle.pack_words(comparison)}
    for stretch in (False, True) if comparison.can_stretch else (False,):
        for one, other in pairs_of(len(comparison.utterances)):
            part = f"difference-{other}-{one}-{str(stretch).lower()}"
            parts[part] = comparison_bundle.pack_difference(comparison, other, one, stretch=stretch)
    styles = ("inspect/inspect.css", "compare/compare.css")
    _write_page(_page(path.stem, parts, "compare/file.js", "compare/compare.html", styles), path)


def _page(name: str, parts: Mapping[str, bytes], start: str, html: str, styles: Iterable[str]) -> str:
    """A self-contained page.

    Args:
        name: the title; also ``data-name`` of each part.
        parts: binary data by element id.
        start: the script whose ``startFile`` is called; like ``html`` and ``styles`` a path in ``widgets``.
    """
    data = "\n".join(
        f'<script id="{escape(part)}" type="text/plain" data-name="{escape(name)}">{_text(content)}</script>'
        for part, content in parts.items()
    )
    return _PAGE.format(
        policy=_POLICY,
        title=escape(name),
        css="".join(map(_read, ("tokens.css", *styles))),
        html=_read(html),
        data=data,
        script=_script(start),
    )


def _write_page(page: str, path: Path) -> None:
    """Write a page. Raises BadFile."""
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise BadFile(f"{path} cannot be written: {error.strerror}", "give another place with --html") from error


def _text(content: bytes) -> str:
    return b64encode(content).decode("ascii")


def _script(start: str) -> str:
    """A script and its imports, without the tag that would end its element."""
    script = bundle(start)
    assert "</script" not in script and "<!--" not in script, f"{start} cannot be embedded in a page"
    return script


def _read(path: str) -> str:
    return (WIDGETS / path).read_text(encoding="utf-8")
