"""The routes of annotation: below ``/library`` for the owner, below ``/annotation`` for the holders of links.

An edit is answered once it is on disk. A link's token travels in a header and gives access to one assignment: its
annotator edits only their own document, and no layers. Where the assignment is blind, nothing below ``/annotation``
identifies the system: titles and everything of a trace but its sound and text are left out.
"""

from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response

from studio.annotation.edits import AnnotationDocument, AnnotationEdit, DropLayer, PutLayer, parse_edit
from studio.annotation.layers import MAX_NAME, AnnotationLayer
from studio.core.errors import BadFile, BadOption
from studio.core.traces.trace_reader import MAX_BYTES
from studio.inspection.opening import open_blinded, open_bytes, read_sound
from studio.library.assignments import Assignment
from studio.library.entries import LibraryEntry, now_s
from studio.library.exchange import (
    COLLAR_MS,
    MAX_FILE_BYTES,
    add_annotation,
    export_annotation,
    format_of,
    read_annotation,
    stored_agreement,
)
from studio.library.library import Library
from studio.mos.store.access import Forbidden
from studio.serve.auth import TokenAuth
from studio.serve.library.access import (
    AnnotationRemove,
    AssignmentCreate,
    AssignmentRemove,
    EditCreate,
    LibraryAccess,
    OwnEditCreate,
    find_entry,
)
from studio.serve.middleware.bodies import FileRoute
from studio.serve.responses import PRIVATE, private_json, read_body, takes
from studio.serve.trace_views import MEDIA_TYPE, LoadSound, LoadTrace, uploaded_file

ASSIGNED = "/annotation"
PAGE = "annotate"  # the page of a link; the token is behind the #, which browsers do not send
IMPORT = "/annotations/import"
ANNOTATION_FILES = {"/library" + IMPORT: FileRoute(MAX_FILE_BYTES, "owner")}  # the paths that take an upload
MAX_SOUND_BYTES = MAX_BYTES["audio.wav"]
MAX_COMPARED_MARKS = 60_000  # of a layer, for each other annotator: a second or two
SHOWN_CHARS = 200  # of an utterance's text in a list
_FILE_SCHEMA = {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}
_Name = Annotated[str, Query(max_length=MAX_NAME)]


def owner_routes(access: LibraryAccess, prefix: str) -> APIRouter:
    """The owner's routes."""
    routes = APIRouter(prefix=prefix, dependencies=access.owner_only)
    call = access.call

    @routes.get("/annotations/of/{name}")
    async def annotators(name: str) -> Response:
        return private_json(await call(lambda library: annotation_summary(library, find_entry(library, name).sha256)))

    @routes.get("/annotations/by/{name}")
    async def document(name: str, annotator: _Name = "") -> Response:
        return private_json(
            await call(lambda library: library.document(find_entry(library, name), annotator).to_dict())
        )

    @routes.post("/annotations/edit", openapi_extra=takes(OwnEditCreate))
    async def edit(request: Request) -> Response:
        body = await read_body(request, OwnEditCreate)
        parsed = _parse(body)
        return private_json(
            await call(lambda library: _apply(library, find_entry(library, body.name), body.annotator, parsed))
        )

    @routes.post("/annotations/remove", openapi_extra=takes(AnnotationRemove))
    async def remove(request: Request) -> Response:
        body = await read_body(request, AnnotationRemove)
        await call(lambda library: library.annotations.remove(find_entry(library, body.name).sha256, body.annotator))
        return private_json({"removed": body.annotator})

    _add_file_routes(routes, access)
    _add_assignment_routes(routes, access)
    return routes


def _add_file_routes(routes: APIRouter, access: LibraryAccess) -> None:
    @routes.get("/annotations/file/{name}")
    async def file(name: str, annotator: _Name = "", format: Annotated[str, Query(max_length=40)] = "") -> Response:
        def work(library: Library) -> Response:
            entry = find_entry(library, name)
            body = export_annotation(library, entry, annotator, format)
            filename = f"annotation-{entry.name}{format_of(format).suffix}"
            headers = PRIVATE | {"Content-Disposition": f'attachment; filename="{filename}"'}
            return Response(body, media_type=format_of(format).media_type, headers=headers)

        return await access.call(work)

    @routes.post(IMPORT, openapi_extra={"requestBody": {"required": True, "content": _FILE_SCHEMA}})
    async def import_file(
        request: Request,
        x_studio_name: Annotated[str, Header(max_length=64)] = "",
        x_studio_annotator: Annotated[str, Header(max_length=12 * MAX_NAME)] = "",
        x_studio_format: Annotated[str, Header(max_length=40)] = "",
    ) -> Response:
        body, annotator = await request.body(), unquote(x_studio_annotator)

        before = await access.call(lambda library: library.document(find_entry(library, x_studio_name), annotator))
        with uploaded_file():
            annotation = await access.views.compute(
                request, read_annotation, x_studio_format, body, before.rate_hz, before.samples
            )

        def work(library: Library) -> dict[str, Any]:
            return add_annotation(library, find_entry(library, x_studio_name), annotator, annotation).to_dict()

        return private_json(await access.call(work))

    @routes.get("/annotations/agreement/{name}")
    async def agreement(
        request: Request,
        name: str,
        layer: _Name = "",
        collar_ms: Annotated[float, Query(ge=0.0, le=10_000.0)] = COLLAR_MS,
    ) -> Response:
        root, sha256 = await access.call(lambda library: (library.root, find_entry(library, name).sha256))
        return private_json(
            await access.views.compute(request, stored_agreement, root, sha256, layer, collar_ms, MAX_COMPARED_MARKS)
        )


def _add_assignment_routes(routes: APIRouter, access: LibraryAccess) -> None:
    auth, call = access.auth, access.call

    @routes.get("/assignments")
    async def assignments() -> Response:
        return private_json([_describe(one) for one in await call(lambda library: library.assignments.all())])

    @routes.get("/assignment/{assignment}")
    async def assignment(assignment: str) -> Response:
        return private_json(await call(lambda library: _progress(library, library.assignments.get(assignment), auth)))

    @routes.post("/assignments", openapi_extra=takes(AssignmentCreate))
    async def create(request: Request) -> Response:
        body = await read_body(request, AssignmentCreate)
        layers = [AnnotationLayer(one.name.strip(), one.kind, tuple(one.labels)) for one in body.layers]

        def work(library: Library) -> dict[str, Any]:
            utterances = [find_entry(library, name).sha256 for name in body.utterances]
            created = library.assignments.make(
                body.title, body.task, layers, utterances, body.annotators, is_blind=body.is_blind
            )
            return _progress(library, created, auth)

        return private_json(await call(work))

    @routes.post("/assignments/remove", openapi_extra=takes(AssignmentRemove))
    async def remove(request: Request) -> Response:
        body = await read_body(request, AssignmentRemove)
        await call(lambda library: library.assignments.remove(body.id))
        return private_json({"removed": body.id})


def annotator_routes(access: LibraryAccess) -> APIRouter:
    """The routes of a link's holder. ``number`` is the index of an utterance in the assignment."""
    routes = APIRouter(prefix=ASSIGNED)
    auth, call, views = access.auth, access.call, access.views

    @routes.get("/assignment")
    async def assignment(request: Request) -> Response:
        caller = auth.annotator(request)
        return private_json(await call(lambda library: _overview(library, *_assignment_of(library, caller))))

    @routes.get("/view/{number:small}")
    async def view(request: Request, number: int) -> Response:
        caller = auth.annotator(request)

        def loader(library: Library) -> LoadTrace:
            assignment, _ = _assignment_of(library, caller)
            entry = _assigned_entry(library, assignment, number)
            return library.loader(entry, open_blinded if assignment.is_blind else open_bytes, entry.note.text)

        return await views.view(request, await call(loader))

    @routes.get("/prosody/{number:small}")
    async def prosody(request: Request, number: int) -> Response:
        caller = auth.annotator(request)

        def loader(library: Library) -> LoadSound:
            entry = _assigned_entry(library, _assignment_of(library, caller)[0], number)
            return library.loader(entry, read_sound, MAX_SOUND_BYTES)

        return await views.prosody(request, await call(loader))

    @routes.get("/marks/{number:small}")
    async def marks(request: Request, number: int) -> Response:
        caller = auth.annotator(request)

        def work(library: Library) -> dict[str, Any]:
            assignment, annotator = _assignment_of(library, caller)
            return _begin(library, assignment, _assigned_entry(library, assignment, number), annotator).to_dict()

        return private_json(await call(work))

    @routes.post("/edit/{number:small}", openapi_extra=takes(EditCreate))
    async def edit(request: Request, number: int) -> Response:
        caller = auth.annotator(request)
        parsed = _parse(await read_body(request, EditCreate))
        if any(isinstance(change, (PutLayer, DropLayer)) for change in parsed.changes):
            raise Forbidden("the layers of an assignment stay as they are", "ask the people who gave you the link")

        def work(library: Library) -> dict[str, Any]:
            assignment, annotator = _assignment_of(library, caller)
            return _apply(library, _assigned_entry(library, assignment, number), annotator, parsed)

        return private_json(await call(work))

    return routes


def annotation_summary(library: Library, sha256: str) -> list[dict[str, Any]]:
    """The annotators of an utterance and their number of marks; a damaged journal is reported as a problem."""
    try:
        documents = library.annotations.of(sha256)
    except BadFile as error:
        return [{"annotator": "", "marks": 0, "is_done": False, "changed_at": 0.0, "problem": str(error)}]
    return [
        {"annotator": one.annotator, "marks": one.marks, "is_done": one.is_done, "changed_at": one.changed_at}
        for one in documents
        if one.layers
    ]


def _parse(body: EditCreate) -> AnnotationEdit:
    return parse_edit({"edit": body.edit, "changes": body.changes}, now_s())


def _apply(library: Library, entry: LibraryEntry, annotator: str, edit: AnnotationEdit) -> dict[str, Any]:
    """Apply an edit and return the revision of everything in it."""
    return {"revision": library.annotate(entry, annotator, edit).revision_of(edit.name)}


def _assignment_of(library: Library, caller: tuple[str, int]) -> tuple[Assignment, str]:
    """The assignment and the annotator's name of a link. Raises Forbidden where the assignment has ended."""
    try:
        assignment = library.assignments.get(caller[0])
        return assignment, assignment.annotators[caller[1]]
    except (BadFile, IndexError):
        raise Forbidden("this link has ended", "ask the people who gave it to you for a new one") from None


def _assigned_entry(library: Library, assignment: Assignment, number: int) -> LibraryEntry:
    """An utterance of an assignment. Raises BadFile."""
    try:
        return library.entry(assignment.utterances[number])
    except (IndexError, BadOption):
        raise BadFile("this utterance is not here any more", "go on with another one") from None


def _begin(library: Library, assignment: Assignment, entry: LibraryEntry, annotator: str) -> AnnotationDocument:
    """An annotator's document with the layers of the assignment; existing layers of the same names are used."""
    document = library.document(entry, annotator)
    names = {one.name for one in document.layers.values()}
    missing = [one for one in assignment.first_layers() if one.layer not in document.layers and one.name not in names]
    if not missing:
        return document
    # The edit's name is the same in every window, so the layers are created once.
    return library.annotate(entry, annotator, AnnotationEdit(f"begin{assignment.id}", tuple(missing), now_s()))


def _document_of(library: Library, sha256: str, annotator: str) -> AnnotationDocument | None:
    try:
        return library.annotations.by(sha256, annotator)
    except BadFile:
        return None


def _describe(one: Assignment) -> dict[str, Any]:
    layers = [{"name": layer.name, "kind": layer.kind, "labels": list(layer.labels)} for layer in one.layers]
    counts = {"utterances": len(one.utterances), "annotators": list(one.annotators)}
    return {
        "id": one.id,
        "title": one.title,
        "made_at": one.made_at,
        "is_blind": one.is_blind,
        "layers": layers,
        **counts,
    }


def _progress(library: Library, assignment: Assignment, auth: TokenAuth) -> dict[str, Any]:
    """An assignment with the link and the progress of each annotator."""
    people: list[dict[str, Any]] = []
    for number, annotator in enumerate(assignment.annotators):
        documents = [_document_of(library, sha256, annotator) for sha256 in assignment.utterances]
        people.append(
            {
                "annotator": annotator,
                "link": f"{PAGE}#{auth.annotator_token(assignment.id, number)}",
                "begun": sum(one is not None and one.marks > 0 for one in documents),
                "done": sum(one is not None and one.is_done for one in documents),
                "marks": sum(one.marks for one in documents if one is not None),
            }
        )
    return {**_describe(assignment), "task": assignment.task, "people": people}


def _overview(library: Library, assignment: Assignment, annotator: str) -> dict[str, Any]:
    """The task and the utterances of an annotator, with their progress."""
    utterances: list[dict[str, Any]] = []
    entries = library.entries(assignment.utterances)
    for sha256 in assignment.utterances:
        document = _document_of(library, sha256, annotator)
        done = {"marks": document.marks if document else 0, "is_done": document is not None and document.is_done}
        entry = entries.get(sha256)
        if entry is None:
            utterances.append({"text": "", "title": "", "duration_ms": 0.0, "is_gone": True, **done})
            continue
        title = "" if assignment.is_blind else entry.note.title  # titles often name the system
        about = {"text": entry.text[:SHOWN_CHARS], "title": title, "duration_ms": entry.duration_ms}
        utterances.append({**about, "is_gone": False, **done})
    about = {"title": assignment.title, "task": assignment.task, "is_blind": assignment.is_blind}
    return {**about, "annotator": annotator, "utterances": utterances}
