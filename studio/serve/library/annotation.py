"""The routes of annotation: below ``/library`` for the owner, below ``/annotation`` for those who were given a link.

An edit is answered once it is on the disk. A link's token travels in a header and opens what its assignment names, no
more; its bearer writes into their own document alone, and makes no layers.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Protocol, TypeVar
from urllib.parse import unquote

from fastapi import APIRouter, Header, Request
from fastapi import Query as Asked
from fastapi.responses import Response

from studio.annotation.edits import Document, DropLayer, Edit, PutLayer, edit_of
from studio.annotation.layers import MAX_NAME, Layer
from studio.core.errors import BadFile, BadOption
from studio.core.traces.trace_reader import MAX_BYTES
from studio.inspection.opening import sound_of_bytes
from studio.library.annotating import (
    COLLAR_MS,
    MAX_FILE_BYTES,
    agreed,
    agreement_to_dict,
    format_of,
    shared_layers,
    take,
    written,
)
from studio.library.assignments import Assignment
from studio.library.entries import Entry, now
from studio.library.library import Library
from studio.mos.store.access import Forbidden
from studio.serve.door.bodies import FileRoute
from studio.serve.library.annotation_bodies import (
    AnnotationRemove,
    AssignmentCreate,
    AssignmentRemove,
    EditCreate,
    OwnEditCreate,
)
from studio.serve.mos.door import Door, read_body, takes
from studio.serve.refusals import PRIVATE, private_json
from studio.serve.traces.inspection import MEDIA_TYPE, Views, sent

ASSIGNED = "/annotation"
PAGE = "annotate"  # what a link opens; the token is behind the #, which browsers keep to themselves
IMPORT = "/annotations/import"
ANNOTATION_FILES = {"/library" + IMPORT: FileRoute(MAX_FILE_BYTES, "owner")}  # the paths that take a file
MAX_SOUND_BYTES = MAX_BYTES["audio.wav"]
_A_FILE = {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}
SHOWN_CHARS = 200  # of an utterance's text in a list
T = TypeVar("T")


class _Calls(Protocol):
    """Does something with the library beside the loop."""

    def __call__(self, work: Callable[[Library], T], /) -> Awaitable[T]: ...


class AnnotationRoutes:
    """The routes over one library.

    Args:
        call: does something with the library, beside the loop.
        named: an entry by its name; raises BadFile.
    """

    def __init__(self, door: Door, views: Views, call: _Calls, named: Callable[[Library, str], Entry]) -> None:
        self._door, self._views, self._call, self._named = door, views, call, named

    def owners(self, below: str) -> APIRouter:
        """What the owner may do."""
        routes = APIRouter(prefix=below)
        door, call, named = self._door, self._call, self._named

        @routes.get("/annotations/of/{name}")
        async def annotators(request: Request, name: str) -> Response:
            await door.owner(request)
            return private_json(await call(lambda library: annotated(library, named(library, name).sha256)))

        @routes.get("/annotations/by/{name}")
        async def document(
            request: Request, name: str, annotator: Annotated[str, Asked(max_length=MAX_NAME)] = ""
        ) -> Response:
            await door.owner(request)
            return private_json(await call(lambda library: library.document(named(library, name), annotator).to_dict()))

        @routes.post("/annotations/edit", openapi_extra=takes(OwnEditCreate))
        async def edit(request: Request) -> Response:
            await door.owner(request)
            wanted = await read_body(request, OwnEditCreate)
            made = _edit(wanted)
            return private_json(
                await call(lambda library: _done(library, named(library, wanted.name), wanted.annotator, made))
            )

        @routes.post("/annotations/remove", openapi_extra=takes(AnnotationRemove))
        async def remove(request: Request) -> Response:
            await door.owner(request)
            wanted = await read_body(request, AnnotationRemove)

            def work(library: Library) -> None:
                library.annotations.remove(named(library, wanted.name).sha256, wanted.annotator)

            await call(work)
            return private_json({"removed": wanted.annotator})

        self._add_files(routes)
        self._add_assignments(routes)
        return routes

    def _add_files(self, routes: APIRouter) -> None:
        door, call, named = self._door, self._call, self._named

        @routes.get("/annotations/file/{name}")
        async def file(
            request: Request,
            name: str,
            annotator: Annotated[str, Asked(max_length=MAX_NAME)] = "",
            format: Annotated[str, Asked(max_length=40)] = "",
        ) -> Response:
            await door.owner(request)

            def work(library: Library) -> Response:
                entry = named(library, name)
                body = written(library, entry, annotator, format)
                called = f"annotation-{entry.name}{format_of(format).suffix}"
                headers = PRIVATE | {"Content-Disposition": f'attachment; filename="{called}"'}
                return Response(body, media_type=format_of(format).media_type, headers=headers)

            return await call(work)

        @routes.post(IMPORT, openapi_extra={"requestBody": {"required": True, "content": _A_FILE}})
        async def take_file(
            request: Request,
            x_studio_name: Annotated[str, Header(max_length=64)] = "",
            x_studio_annotator: Annotated[str, Header(max_length=12 * MAX_NAME)] = "",
            x_studio_format: Annotated[str, Header(max_length=40)] = "",
        ) -> Response:
            await door.owner(request)
            body, annotator = await request.body(), unquote(x_studio_annotator)

            def work(library: Library) -> dict[str, Any]:
                entry = named(library, x_studio_name)
                with self._views.place(), sent():
                    return take(library, entry, annotator, x_studio_format, body).to_dict()

            return private_json(await call(work))

        @routes.get("/annotations/agreement/{name}")
        async def agreeing(
            request: Request,
            name: str,
            layer: Annotated[str, Asked(max_length=MAX_NAME)] = "",
            collar_ms: Annotated[float, Asked(ge=0.0, le=10_000.0)] = COLLAR_MS,
        ) -> Response:
            await door.owner(request)

            def work(library: Library) -> dict[str, Any]:
                entry = named(library, name)
                if not layer:
                    return {"layers": shared_layers(library, entry)}
                with self._views.place():
                    return agreement_to_dict(agreed(library, entry, layer, collar_ms))

            return private_json(await call(work))

    def _add_assignments(self, routes: APIRouter) -> None:
        door, call, named = self._door, self._call, self._named

        @routes.get("/assignments")
        async def assignments(request: Request) -> Response:
            await door.owner(request)
            found = await call(lambda library: library.assignments.all())
            return private_json([_brief(one) for one in found])

        @routes.get("/assignment/{assignment}")
        async def assignment(request: Request, assignment: str) -> Response:
            await door.owner(request)
            return private_json(
                await call(lambda library: self._progress(library, library.assignments.get(assignment)))
            )

        @routes.post("/assignments", openapi_extra=takes(AssignmentCreate))
        async def make(request: Request) -> Response:
            await door.owner(request)
            wanted = await read_body(request, AssignmentCreate)
            layers = [Layer(one.name.strip(), one.kind, tuple(one.labels)) for one in wanted.layers]

            def work(library: Library) -> dict[str, Any]:
                chosen = [named(library, name).sha256 for name in wanted.utterances]
                made = library.assignments.make(wanted.title, wanted.task, layers, chosen, wanted.annotators)
                return self._progress(library, made)

            return private_json(await call(work))

        @routes.post("/assignments/remove", openapi_extra=takes(AssignmentRemove))
        async def remove(request: Request) -> Response:
            await door.owner(request)
            wanted = await read_body(request, AssignmentRemove)
            await call(lambda library: library.assignments.remove(wanted.id))
            return private_json({"removed": wanted.id})

    def assigned(self) -> APIRouter:
        """What the bearer of a link may do. ``number`` counts the assignment's utterances, from 0."""
        routes = APIRouter(prefix=ASSIGNED)
        door, call = self._door, self._call

        @routes.get("/assignment")
        async def assignment(request: Request) -> Response:
            who = door.annotator(request)
            return private_json(await call(lambda library: _assignment(library, *_theirs(library, who))))

        async def answered(request: Request, number: int, work: Callable[[Library, Entry], Response]) -> Response:
            who = door.annotator(request)
            return await call(lambda library: work(library, _assigned(library, _theirs(library, who)[0], number)))

        @routes.get("/view/{number:small}")
        async def view(request: Request, number: int) -> Response:
            return await answered(
                request, number, lambda library, entry: self._views.packed(lambda: library.open(entry))
            )

        @routes.get("/prosody/{number:small}")
        async def prosody(request: Request, number: int) -> Response:
            def work(library: Library, entry: Entry) -> Response:
                return self._views.prosody(lambda: sound_of_bytes(library.read(entry), MAX_SOUND_BYTES))

            return await answered(request, number, work)

        @routes.get("/marks/{number:small}")
        async def marks(request: Request, number: int) -> Response:
            who = door.annotator(request)

            def work(library: Library) -> dict[str, Any]:
                assignment, annotator = _theirs(library, who)
                return _begun(library, assignment, _assigned(library, assignment, number), annotator).to_dict()

            return private_json(await call(work))

        @routes.post("/edit/{number:small}", openapi_extra=takes(EditCreate))
        async def edit(request: Request, number: int) -> Response:
            who = door.annotator(request)
            made = _edit(await read_body(request, EditCreate))
            if any(isinstance(one, (PutLayer, DropLayer)) for one in made.changes):
                raise Forbidden("the layers of an assignment stay as they are", "ask the people who gave you the link")

            def work(library: Library) -> dict[str, Any]:
                assignment, annotator = _theirs(library, who)
                return _done(library, _assigned(library, assignment, number), annotator, made)

            return private_json(await call(work))

        return routes

    def _progress(self, library: Library, assignment: Assignment) -> dict[str, Any]:
        """An assignment with each annotator's link and how far they are."""
        people: list[dict[str, Any]] = []
        for number, annotator in enumerate(assignment.annotators):
            documents = [_by(library, sha256, annotator) for sha256 in assignment.utterances]
            people.append(
                {
                    "annotator": annotator,
                    "link": f"{PAGE}#{self._door.annotator_token(assignment.id, number)}",
                    "begun": sum(one is not None and one.marks > 0 for one in documents),
                    "done": sum(one is not None and one.is_done for one in documents),
                    "marks": sum(one.marks for one in documents if one is not None),
                }
            )
        return {**_brief(assignment), "task": assignment.task, "people": people}


def annotated(library: Library, sha256: str) -> list[dict[str, Any]]:
    """Who annotated an utterance, and how much; a journal that is damaged is told in words."""
    try:
        found = library.annotations.of(sha256)
    except BadFile as error:
        return [{"annotator": "", "marks": 0, "is_done": False, "changed_at": 0.0, "problem": str(error)}]
    return [
        {"annotator": one.annotator, "marks": one.marks, "is_done": one.is_done, "changed_at": one.changed_at}
        for one in found
        if one.layers
    ]


def _edit(wanted: EditCreate) -> Edit:
    return edit_of({"edit": wanted.edit, "changes": wanted.changes}, now())


def _done(library: Library, entry: Entry, annotator: str, edit: Edit) -> dict[str, Any]:
    """The revision that an edit made: everything in it has that version now."""
    return {"revision": library.annotate(entry, annotator, edit).known(edit.name)}


def _theirs(library: Library, who: tuple[str, int]) -> tuple[Assignment, str]:
    """The assignment of a link, and its bearer's name. Raises Forbidden where it has ended."""
    try:
        found = library.assignments.get(who[0])
        return found, found.annotators[who[1]]
    except (BadFile, IndexError):
        raise Forbidden("this link has ended", "ask the people who gave it to you for a new one") from None


def _assigned(library: Library, assignment: Assignment, number: int) -> Entry:
    """An utterance of an assignment. Raises BadFile."""
    try:
        return library.entry(assignment.utterances[number])
    except (IndexError, BadOption):
        raise BadFile("this utterance is not here any more", "go on with another one") from None


def _begun(library: Library, assignment: Assignment, entry: Entry, annotator: str) -> Document:
    """An annotator's document, with the layers of the assignment in it; one of the same name is used as it is."""
    document = library.document(entry, annotator)
    names = {one.name for one in document.layers.values()}
    lacking = [one for one in assignment.first_layers() if one.layer not in document.layers and one.name not in names]
    if not lacking:
        return document
    # The name is the same in every window, so that the layers are made once.
    return library.annotate(entry, annotator, Edit(f"begin{assignment.id}", tuple(lacking), now()))


def _by(library: Library, sha256: str, annotator: str) -> Document | None:
    try:
        return library.annotations.by(sha256, annotator)
    except BadFile:
        return None


def _brief(one: Assignment) -> dict[str, Any]:
    layers = [{"name": layer.name, "kind": layer.kind, "labels": list(layer.labels)} for layer in one.layers]
    counts = {"utterances": len(one.utterances), "annotators": list(one.annotators)}
    return {"id": one.id, "title": one.title, "made_at": one.made_at, "layers": layers, **counts}


def _assignment(library: Library, assignment: Assignment, annotator: str) -> dict[str, Any]:
    """What an annotator sees first: what is asked, and each utterance with how far they are."""
    shown: list[dict[str, Any]] = []
    for sha256 in assignment.utterances:
        document = _by(library, sha256, annotator)
        done = {"marks": document.marks if document else 0, "is_done": document is not None and document.is_done}
        try:
            entry = library.entry(sha256)
        except BadOption:
            shown.append({"text": "", "title": "", "duration_ms": 0.0, "is_gone": True, **done})
            continue
        about = {"text": entry.text[:SHOWN_CHARS], "title": entry.note.title, "duration_ms": entry.duration_ms}
        shown.append({**about, "is_gone": False, **done})
    return {"title": assignment.title, "task": assignment.task, "annotator": annotator, "utterances": shown}
