"""The owner's routes of the lexicon, below ``/lexicon``."""

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from studio.core.errors import BadFile
from studio.serve.auth import TokenAuth
from studio.serve.middleware.bodies import FileRoute
from studio.serve.responses import PRIVATE, StrictModel, private_json, read_body, takes
from studio.text.lexicon import MAX_BYTES, MAX_READING_CHARS
from studio.text.lexicon_book import LexiconBook

BELOW, IMPORT = "/lexicon", "/import"
LEXICON_FILES = {BELOW + IMPORT: FileRoute(MAX_BYTES, "owner")}
_Word = Annotated[str, Field(max_length=40)]


class EntryAdd(StrictModel):
    """The owner adds a word, or changes how it is read: ``/IPA/`` or words."""

    word: _Word
    reading: Annotated[str, Field(max_length=MAX_READING_CHARS + 2)]


class WordRemove(StrictModel):
    """The owner removes a word."""

    word: _Word


def add_lexicon(app: FastAPI, auth: TokenAuth, path: Path) -> None:
    """Add the routes of the lexicon in a file."""
    routes = APIRouter(prefix=BELOW, dependencies=[Depends(auth.owner)])
    book = LexiconBook(path)

    def listed() -> dict[str, Any]:
        return {"entries": [{"word": word, "reading": reading} for word, reading in book.entries().items()]}

    @routes.get("/entries")
    async def entries() -> Response:
        return private_json(await run_in_threadpool(listed))

    @routes.post("/entries", openapi_extra=takes(EntryAdd))
    async def add(request: Request) -> Response:
        body = await read_body(request, EntryAdd)
        await run_in_threadpool(book.add, body.word, body.reading)
        return private_json(await run_in_threadpool(listed))

    @routes.post("/remove", openapi_extra=takes(WordRemove))
    async def remove(request: Request) -> Response:
        body = await read_body(request, WordRemove)
        await run_in_threadpool(book.remove, body.word)
        return private_json(await run_in_threadpool(listed))

    @routes.get("/file")
    async def file() -> Response:
        headers = PRIVATE | {"Content-Disposition": 'attachment; filename="lexicon.txt"'}
        return Response(await run_in_threadpool(book.text), headers=headers, media_type="text/plain; charset=utf-8")

    @routes.post(IMPORT)
    async def import_file(request: Request) -> Response:
        try:
            lines = (await request.body()).decode("utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise BadFile("the file is no text in UTF-8", "save it as UTF-8") from error
        count = await run_in_threadpool(book.merge, lines)
        return private_json(await run_in_threadpool(listed) | {"imported": count})

    app.include_router(routes)
