"""An inspection as one HTML file: sound, picture and scripts in it, and nothing fetched from anywhere."""

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

from studio.core.errors import BadFile
from studio.core.traces.forced import Attended, kept_attention
from studio.core.traces.trace import Trace
from studio.inspection.bundle import pack, pack_attention, pack_prosody

_WIDGETS = Path(__file__).parent / "widgets"
_START = "inspect/inspect.js"
_IMPORT = re.compile(r'^import (?:.* from )?"(\.[^"]+)";$', re.M)
# What is in the file may run; nothing is fetched but what it makes of itself.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; media-src blob:; img-src blob:"
)
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
<script id="scripts" type="application/json">{scripts}</script>
<script type="module">
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.body.classList.toggle("dark", dark.matches);
dark.addEventListener("change", follow);
follow();
// Modules know each other by path: each becomes a file of the browser's own once those it needs are.
const sources = JSON.parse(document.getElementById("scripts").textContent);
const places = {{}};
for (const [path, source] of sources) {{
  const text = source.replace(/^(import (?:.* from )?)"(.+)";$/gm, (_, head, other) =>
    `${{head}}"${{places[new URL(other, `file:///${{path}}`).pathname.slice(1)]}}";`);
  places[path] = URL.createObjectURL(new Blob([text], {{ type: "text/javascript" }}));
}}
(await import(places["{start}"])).startFile(document.querySelector("main"));
</script></body></html>
"""


def inspection_file(trace: Trace, name: str, attended: Attended | None = None) -> str:
    """The page of one utterance; ``name`` is its title where it has no text.

    Args:
        attended: where the net attended, to be drawn, too; what the trace keeps itself unless given.

    Raises:
        BadFile: the trace cannot be laid on a clock.
    """
    attended = attended or kept_attention(trace)
    parts = {
        "bundle": pack(trace),
        "prosody": pack_prosody(trace.pcm, trace.rate_hz),
        "attention": pack_attention(attended, trace.p_eos) if attended else b"",
    }
    return whole_page(name, parts, _START, "inspect/inspect.html", ["inspect/inspect.css"])


def whole_page(name: str, parts: Mapping[str, bytes], start: str, html: str, styles: Iterable[str]) -> str:
    """A page that holds everything that it shows.

    Args:
        name: its title, which its script finds as ``data-name`` of each part.
        parts: what is shown, by the id of the element that holds it.
        start: the script whose ``startFile`` begins; like ``html`` and ``styles`` a path in ``widgets``.
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
        scripts=json.dumps(_scripts(start)).replace("<", "\\u003c"),  # no script ends inside one
        start=start,
    )


def write_inspection(trace: Trace, path: Path, attended: Attended | None = None) -> None:
    """Write the page of one utterance. Raises BadFile where it cannot be."""
    write_page(inspection_file(trace, path.stem, attended), path)


def write_page(page: str, path: Path) -> None:
    """Write a page. Raises BadFile where it cannot be."""
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise BadFile(f"{path} cannot be written: {error.strerror}", "give another place with --html") from error


def _text(content: bytes) -> str:
    return b64encode(content).decode("ascii")


def _scripts(start: str) -> list[tuple[str, str]]:
    """A script and all that it imports, each after those that it needs."""
    found: dict[str, str] = {}

    def visit(path: str) -> None:
        source = _read(path)
        folder = Path(path).parent
        for other in _IMPORT.findall(source):
            needed = (_WIDGETS / folder / other).resolve().relative_to(_WIDGETS.resolve()).as_posix()
            if needed not in found:
                visit(needed)
        found[path] = source

    visit(start)
    return list(found.items())


def _read(path: str) -> str:
    return (_WIDGETS / path).read_text(encoding="utf-8")
