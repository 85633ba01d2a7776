"""Messages of foreign clients as models, and what their texts are written in."""

from collections.abc import Mapping
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from studio.core.errors import BadMessage, BadOption
from studio.markup import Markup

Model = TypeVar("Model", bound=BaseModel)


def validated(kind: type[Model], data: dict[str, Any]) -> Model:
    """Raises BadMessage, which names the first wrong field."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
    name = ".".join(str(part) for part in first["loc"][:2]) or "the message"
    raise BadMessage(f"{name}: {first['msg'][:200]}", "see docs/clients.md")


def markup_of(query: Mapping[str, str], default: Markup = "plain") -> Markup:
    """``markup`` of an address.

    Raises BadOption.
    """
    name = query.get("markup", default)
    for markup in get_args(Markup):
        if name == markup:
            return markup
    raise BadOption(f"there is no markup {name[:40]!r}", f"there are {', '.join(get_args(Markup))}")
