"""Reading request bodies into strict pydantic models."""

from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, ValidationError

from studio.core.errors import BadMessage

Model = TypeVar("Model", bound=BaseModel)


class StrictModel(BaseModel):
    """A body without coercion and without unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid")


def takes(model: type[BaseModel]) -> dict[str, Any]:
    """The ``openapi_extra`` of a route that reads its body with ``read_body``."""
    schema = model.model_json_schema()
    return {
        "requestBody": {"required": True, "content": {"application/json": {"schema": _inline_refs(schema, schema)}}}
    }


def _inline_refs(part: Any, schema: dict[str, Any]) -> Any:
    """The schema with its references resolved."""
    if isinstance(part, list):
        return [_inline_refs(one, schema) for one in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        return _inline_refs(schema["$defs"][part["$ref"].rpartition("/")[2]], schema)
    return {name: _inline_refs(one, schema) for name, one in part.items() if name != "$defs"}


async def read_body(request: Request, model: type[Model]) -> Model:
    """The body of a request as a model; middleware has bounded its length.

    Raises:
        BadMessage: not JSON, or a field is missing, unknown or not allowed.
    """
    try:
        return model.model_validate_json(await request.body())
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the message"
        raise BadMessage(f"{where[:100]}: {first['msg'][:200]}", "reload the page and try again") from error
