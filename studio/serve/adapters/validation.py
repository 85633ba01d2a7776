"""Messages of foreign clients as models."""

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from studio.core.errors import BadMessage

Model = TypeVar("Model", bound=BaseModel)


def validated(kind: type[Model], data: dict[str, Any]) -> Model:
    """Raises BadMessage, which names the first wrong field."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
    name = ".".join(str(part) for part in first["loc"][:2]) or "the message"
    raise BadMessage(f"{name}: {first['msg'][:200]}", "see docs/clients.md")
