"""The page's own scripts and styles, served under an address that changes with their content."""

import hashlib
from functools import lru_cache
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse, Response

WIDGETS = Path(__file__).parent / "widgets"
_MEDIA_TYPES = {".js": "text/javascript; charset=utf-8", ".json": "application/json"}
_STYLES = ("live.css", "stage.css", "rate.css", "owner.css")


@lru_cache
def _scripts() -> dict[str, Path]:
    """Every file that may be fetched, by name."""
    return {path.name: path for path in sorted(WIDGETS.iterdir()) if path.suffix in _MEDIA_TYPES}


@lru_cache
def asset_path() -> str:
    """Where the scripts are below the server's root: a new place whenever one of them changes."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in _scripts().values())).hexdigest()[:12]
    return f"/studio-assets/{digest}"


def styles() -> str:
    """The page's styles, for its head."""
    return "\n".join((WIDGETS / name).read_text(encoding="utf-8") for name in _STYLES)


def add_assets(app: FastAPI) -> None:
    """Serve the scripts; must be called before Gradio takes the root."""

    @app.get(asset_path() + "/{name}", include_in_schema=False)
    def asset(name: str) -> Response:
        path = _scripts().get(name)
        if path is None:
            return Response("there is no such script", status_code=404, media_type="text/plain")
        headers = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
        return FileResponse(path, media_type=_MEDIA_TYPES[path.suffix], headers=headers)
