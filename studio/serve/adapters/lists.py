"""Lists of models and voices as OpenAI's, ElevenLabs' and Cartesia's clients read them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response

from studio.core.cards import Card
from studio.core.errors import BadVoice, StudioError
from studio.core.folders import without_folders
from studio.core.ports import Engine
from studio.serve.adapters.openai import error_body
from studio.serve.adapters.voices import BadModel, addresses
from studio.serve.responses import private_json

_PAGED = "2024-11-13"  # the version of Cartesia's API since which lists are pages
_CREATED = "2026-01-01T00:00:00Z"  # a field that Cartesia's clients require; voices have no date here


def add_lists(app: FastAPI, engine: Engine) -> None:
    """Add the routes. ``/v1/models`` answers a client with ElevenLabs' header as ElevenLabs does."""

    @app.get("/v1/models")
    async def models(request: Request) -> Any:
        if "xi-api-key" in request.headers:
            return [_elevenlabs_model(card) for card in engine.cards()]
        return {"object": "list", "data": [_openai_model(card) for card in engine.cards()]}

    @app.get("/v1/models/{model}")
    async def model(model: str) -> Any:
        cards = {card.name: card for card in engine.cards()}
        if model in cards:
            return _openai_model(cards[model])
        return _not_found(BadModel(f"there is no model {model[:80]!r}", f"there are {', '.join(cards)}"))

    @app.get("/v1/audio/voices")
    async def openai_voices() -> Any:
        listed = addresses(engine.cards())
        return {"voices": [{"id": one, "name": one, "model": one.partition(":")[0]} for one in listed]}

    @app.get("/v1/voices")
    @app.get("/v2/voices")
    async def elevenlabs_voices() -> Any:
        voices = [*_each(engine, _elevenlabs_voice)]
        return {"voices": voices, "has_more": False, "total_count": len(voices), "next_page_token": None}

    @app.get("/v1/voices/{voice}")
    async def elevenlabs_voice(voice: str) -> Any:
        return _one(engine, voice, "voice_id", _elevenlabs_voice)

    @app.get("/voices")
    async def cartesia_voices(request: Request) -> Any:
        is_first_page = "starting_after" not in request.query_params
        data = [*_each(engine, _cartesia_voice)] if is_first_page else []
        if request.headers.get("cartesia-version", _PAGED) < _PAGED:
            return data
        return {"data": data, "has_more": False, "next_page": None}

    @app.get("/voices/{voice}")
    async def cartesia_voice(voice: str) -> Any:
        return _one(engine, voice, "id", _cartesia_voice)


_Describe = Callable[[Card, str], dict[str, Any]]


def _each(engine: Engine, describe: _Describe) -> Iterator[dict[str, Any]]:
    """A description of every speaker."""
    for card in engine.cards():
        yield from (describe(card, speaker) for speaker in card.speakers_default_first)


def _one(engine: Engine, voice: str, field: str, describe: _Describe) -> Any:
    for one in _each(engine, describe):
        if one[field] == voice:
            return one
    known = ", ".join(addresses(engine.cards()))
    return _not_found(BadVoice(f"there is no voice {voice[:80]!r}", f"there are {known}"))


def _not_found(error: StudioError) -> Response:
    """A 404 that the clients of all three read."""
    message = without_folders(str(error))
    return private_json(
        {**error_body(error), "detail": {"status": error.code, "message": message}, "message": message}, 404
    )


def _languages(card: Card) -> Sequence[str]:
    """Those that can be chosen, or English."""
    return next((one.choices for one in card.options if one.name == "language" and one.choices), ("en",))


def _openai_model(card: Card) -> dict[str, Any]:
    return {"id": card.name, "object": "model", "created": 0, "owned_by": card.family}


def _elevenlabs_model(card: Card) -> dict[str, Any]:
    languages = [{"language_id": one, "name": one} for one in _languages(card)]
    return {"model_id": card.name, "name": card.title, "can_do_text_to_speech": True, "languages": languages}


def _elevenlabs_voice(card: Card, speaker: str) -> dict[str, Any]:
    name = f"{speaker.capitalize()} ({card.title})"
    described = {"category": "premade", "labels": {"family": card.family}, "description": card.notes}
    return {"voice_id": f"{card.name}:{speaker}", "name": name, **described}


def _cartesia_voice(card: Card, speaker: str) -> dict[str, Any]:
    named = {"id": f"{card.name}:{speaker}", "name": f"{speaker.capitalize()} ({card.title})"}
    public = {"is_owner": False, "is_public": True, "created_at": _CREATED, "locales": []}
    return {**named, **public, "description": card.notes, "language": _languages(card)[0]}
