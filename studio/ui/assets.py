"""The pages' scripts and styles, served at an address that changes with their content."""

import hashlib
from functools import lru_cache
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import Response

from studio.ui.page_policy import script_policy

WIDGETS = Path(__file__).parent / "widgets"
_MEDIA_TYPES = {".js": "text/javascript; charset=utf-8", ".json": "application/json", ".png": "image/png"}
_STYLES = (
    "widgets/tokens.css",
    "widgets/options/options.css",
    *(f"widgets/live/{name}.css" for name in ("live", "settings", "race/race", "stage", "talk/talk", "sizes")),
    "widgets/rate/rate.css",
    "widgets/inspect/inspect.css",
    "widgets/annotate/annotate.css",
    "widgets/compare/compare.css",
    "widgets/owner/fields.css",
    "widgets/edit/edit.css",
    "widgets/library/library.css",
    "owner.css",
)


@lru_cache
def _scripts() -> dict[str, bytes]:
    """Every file that may be fetched, by path; read once, since browsers cache them by digest."""
    paths = sorted(path for path in WIDGETS.rglob("*") if path.suffix in _MEDIA_TYPES)
    return {path.relative_to(WIDGETS).as_posix(): path.read_bytes() for path in paths}


@lru_cache
def asset_path() -> str:
    """The path of the scripts; it changes whenever one of them does."""
    digest = hashlib.sha256(b"".join(_scripts().values())).hexdigest()[:12]
    return f"/studio-assets/{digest}"


def styles() -> str:
    """The styles of all pages, for the head."""
    return "\n".join((WIDGETS.parent / name).read_text(encoding="utf-8") for name in _STYLES)


def add_assets(app: FastAPI) -> None:
    """Serve the scripts; call this before Gradio is mounted at the root."""

    @app.get(asset_path() + "/{path:path}", include_in_schema=False)
    def asset(request: Request, path: str) -> Response:
        content = _scripts().get(path)
        if content is None:
            return Response("there is no such script", status_code=404, media_type="text/plain")
        headers = {
            "Cache-Control": "public, max-age=31536000, immutable",
            "Content-Security-Policy": script_policy(request.scope),
        }
        return Response(content, media_type=_MEDIA_TYPES[Path(path).suffix], headers=headers)
