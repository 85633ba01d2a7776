"""The pages that are plain HTML: a document for each language, with its markup, one stylesheet and one script."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from starlette.responses import RedirectResponse, Response

from studio.serve.middleware.headers import POLICY
from studio.ui.assets import STYLES, HasArena, asset_path, origin_of, page_policy
from studio.ui.bundle import WIDGETS
from studio.ui.page import TITLE, Page
from studio.ui.translation import ENGLISH, chosen_language, read_catalogues, translated

CLAIM = "It speaks while you are still typing."
PICTURE = "live/race/card.png"  # a race of the voice wren, saved from the Live page
_MARK = (
    '<svg viewBox="0 0 26 26" fill="none" stroke="currentColor" stroke-width="2.4" stroke-linecap="round" '
    'aria-hidden="true"><path d="M3 13h1M8 8v10M13 3v20M18 9v8M23 12v2"/></svg>'
)
_MOON = (
    '<svg viewBox="0 0 20 20" fill="none" stroke="currentColor" stroke-width="1.6" aria-hidden="true">'
    '<circle cx="10" cy="10" r="6.5"/><path d="M10 3.5v13a6.5 6.5 0 0 0 0-13z" fill="currentColor"/></svg>'
)
# Every address is relative: a proxy may add a prefix, and all pages are one level deep. Rendering waits for the whole
# markup (`expect`): a narrow page reorders its parts, so a late part would move the others.
_DOCUMENT = """<!doctype html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
{tags}
<link rel="icon" href=".{assets}/page/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href=".{assets}/{styles}">
<link rel="expect" href="#props" blocking="render">
<script type="module" src=".{assets}/{folder}/{folder}.js"></script>
</head>
<body class="plain"{marks}>
<script src=".{assets}/page/boot.js"></script>
{masthead}
<main id="{folder}"{main_class}>
{markup}</main>
<script type="application/json" id="props">{props}</script>
{texts}</body>
</html>
"""
_APP = (
    '<link rel="manifest" href=".{assets}/page/manifest.json">'
    '<link rel="apple-touch-icon" href=".{assets}/page/icons/icon-192.png">'
    '<meta name="theme-color" content="#f6f5f1" media="(prefers-color-scheme: light)">'
    '<meta name="theme-color" content="#0d1117" media="(prefers-color-scheme: dark)">'
)
IsOwner = Callable[[Request], Awaitable[bool]]
SignIn = Callable[[Request], Awaitable[str | None]]


def masthead(current: Page, pages: Sequence[Page]) -> str:
    """Name, navigation and the light-dark switch; an owner page is reached through the sign-in page.

    The first link skips them (``page/boot.js``).
    """
    here = current.parent or current.path
    links = "".join(
        f'<a href="./{page.path}"{" aria-current=page" if page.path == here else ""}>{escape(page.title)}</a>'
        for page in pages
        if page.in_navigation
    )
    switch = f'<button type="button" class="theme" aria-label="Switch between light and dark">{_MOON}</button>'
    brand = f'<a class="brand" href="./">{_MARK}{TITLE}</a>'
    skip = f'<a class="skip" href="#{current.content}">Skip to the page</a>'
    return f'{skip}<header class="masthead">{brand}<nav aria-label="Pages">{links}</nav>{switch}</header>'


def head_tags(request: Request, page: Page) -> str:
    """Description and picture for link previews, and the tags that make the pages an installable app.

    Pages of raters and annotators have a title only, so that neither a link preview nor an app reveals the studio.
    """
    if page.access == "link":
        return '<meta name="robots" content="noindex">'
    properties = {"og:type": "website", "og:title": TITLE, "og:description": CLAIM}
    names = {"description": CLAIM, "twitter:card": "summary_large_image", "twitter:title": TITLE}
    root = request.scope.get("root_path", "").rstrip("/")
    address = f"{origin_of(request.scope)}{root}{asset_path()}/{PICTURE}"
    properties |= {"og:image": address, "og:image:width": "1200", "og:image:height": "630"}
    names |= {"twitter:image": address}
    tags = [f'<meta property="{name}" content="{escape(value)}">' for name, value in properties.items()]
    tags += [f'<meta name="{name}" content="{escape(value)}">' for name, value in names.items()]
    return "".join(tags) + _APP.format(assets=asset_path())


class Document:
    """A page's HTML in one language.

    Only the tags for link previews and the attributes of its body depend on the request.

    Args:
        texts: the catalogue of the language, empty for English. The page's script gets it too.
    """

    def __init__(self, page: Page, pages: Sequence[Page], language: str, texts: Mapping[str, str]) -> None:
        self._page = page
        folders = page.markup or (page.folder,)
        markup = "".join((WIDGETS / one / f"{one}.html").read_text(encoding="utf-8") for one in folders)
        top = "" if page.access == "link" else masthead(page, pages)
        html = _DOCUMENT.format(
            language=language,
            title=escape(f"{texts.get(page.title, page.title)} · {TITLE}"),
            tags="{tags}",
            marks="{marks}",
            assets=asset_path(),
            styles=STYLES,
            folder=page.folder,
            masthead=translated(top, texts),
            main_class=' class="owner"' if page.access == "owner" or page.folder == "signin" else "",
            markup=translated(markup, texts),
            props=_json(page.props()),
            texts=_TEXTS.format(texts=_json(texts)) if texts else "",
        )
        self._head, rest = html.split("{tags}")
        self._middle, self._tail = rest.split("{marks}")

    def render(self, request: Request, *, is_owner: bool, has_arena: bool) -> Response:
        """The page as a response; the navigation has the arena only if one is open."""
        marks = " data-owner" * is_owner + " data-arena" * has_arena
        html = f"{self._head}{head_tags(request, self._page)}{self._middle}{marks}{self._tail}"
        return Response(html, headers={POLICY.decode(): page_policy(request.scope, "'self'")}, media_type="text/html")


class Documents:
    """A page's documents, one for each of its languages."""

    def __init__(self, page: Page, pages: Sequence[Page]) -> None:
        catalogues = read_catalogues(WIDGETS / page.words if page.words else None)
        self._documents = {language: Document(page, pages, language, texts) for language, texts in catalogues.items()}

    def render(self, request: Request, *, is_owner: bool, has_arena: bool) -> Response:
        """The page in the language of ``?lang=`` or of the browser."""
        if len(self._documents) == 1:
            return self._documents[ENGLISH].render(request, is_owner=is_owner, has_arena=has_arena)
        document = self._documents[chosen_language(request, self._documents)]
        response = document.render(request, is_owner=is_owner, has_arena=has_arena)
        response.headers["vary"] = "Accept-Language"
        return response


def _json(value: Any) -> str:
    """JSON for a script element, without markup."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


_TEXTS = '<script type="application/json" id="texts">{texts}</script>\n'


def sign_in_redirect(request: Request) -> RedirectResponse:
    """A redirect to the sign-in page, which redirects back to the page of this request."""
    wanted = request.url.path.rstrip("/").rpartition("/")[2]
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"./sign-in?next={quote(wanted + query, safe='')}", status_code=303)


def add_documents(app: FastAPI, pages: Sequence[Page], is_owner: IsOwner, sign_in: SignIn, has_arena: HasArena) -> None:
    """Serve the plain pages; call this before Gradio is mounted at the root.

    Args:
        is_owner: whether a request's browser is signed in as the owner.
        has_arena: whether an arena is open.
        sign_in: the header that signs in a browser which opens the owner's link; None for any other request.
    """
    for page in pages:
        if page.folder:
            _add(app, page, Documents(page, pages), is_owner, sign_in, has_arena)


def _add(
    app: FastAPI, page: Page, documents: Documents, is_owner: IsOwner, sign_in: SignIn, has_arena: HasArena
) -> None:
    @app.api_route(f"/{page.path}", methods=["GET", "HEAD"], include_in_schema=False)
    async def show(request: Request) -> Response:
        if not page.path and (cookie := await sign_in(request)) is not None:
            return RedirectResponse("./", 303, {"set-cookie": cookie, "cache-control": "no-store"})
        signed_in = page.access != "link" and await is_owner(request)
        if page.access == "owner" and not signed_in:
            return sign_in_redirect(request)
        return documents.render(request, is_owner=signed_in, has_arena=page.access != "link" and await has_arena())
