"""An inspection as one HTML file: sound, picture and scripts in it, and nothing fetched from anywhere."""

import json
import re
from base64 import b64encode
from html import escape
from pathlib import Path

from studio.core.errors import BadFile
from studio.core.forced import Attended, kept_attention
from studio.core.trace import Trace
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
<script id="bundle" type="text/plain" data-name="{name}">{data}</script>
<script id="prosody" type="text/plain">{prosody}</script>
<script id="attention" type="text/plain">{attention}</script>
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
    attention = pack_attention(attended, trace.p_eos) if attended else b""
    parts = (pack(trace), pack_prosody(trace.pcm, trace.rate_hz), attention)
    data, prosody, looked = (b64encode(part).decode("ascii") for part in parts)
    scripts = json.dumps(_scripts(_START)).replace("<", "\\u003c")  # no script ends inside one
    return _PAGE.format(
        policy=_POLICY,
        title=escape(name),
        css=_read("tokens.css") + _read("inspect/inspect.css"),
        html=_read("inspect/inspect.html"),
        name=escape(name),
        data=data,
        prosody=prosody,
        attention=looked,
        scripts=scripts,
        start=_START,
    )


def write_inspection(trace: Trace, path: Path, attended: Attended | None = None) -> None:
    """Write the page of one utterance. Raises BadFile where it cannot be."""
    try:
        path.write_text(inspection_file(trace, path.stem, attended), encoding="utf-8")
    except OSError as error:
        raise BadFile(f"{path} cannot be written: {error.strerror}", "give another place with --html") from error


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
