"""What the Edit page sends: bounded and strict, a model for each body."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from studio.mos.store.json_columns import write_json
from studio.serve.door.bodies import MAX_BODY_BYTES

_Name = Annotated[str, Field(min_length=1, max_length=80)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class DraftCreate(_Strict):
    """An owner begins a draft from a template."""

    name: _Name
    template: str = Field(max_length=40)


class SettingsChange(_Strict):
    """An owner changes a draft's settings, all of them; ``seen`` is the mark of those that were changed."""

    settings: dict[str, Any] = Field(max_length=40)
    seen: str | None = Field(default=None, max_length=40)

    @field_validator("settings")
    @classmethod
    def _can_be_kept(cls, settings: dict[str, Any]) -> dict[str, Any]:
        write_json(settings)
        return settings


class SystemPut(_Strict):
    """An owner adds a system that speaks, or gives one another role."""

    system: _Name
    role: Literal["test", "reference"] = "test"


class SystemDrop(_Strict):
    """An owner takes a system out."""

    system: _Name


class TextsPut(_Strict):
    """An owner says what the test scripts are, one a line; ``sure`` where sounds go with those that are no more."""

    texts: str = Field(max_length=MAX_BODY_BYTES)
    sure: bool = False


class SoundsTake(_Strict):
    """An owner takes sounds in: of a folder in the data folder, or without one what was uploaded."""

    folder: _Name | None = None


class PlanAsk(_Strict):
    """An owner asks how many raters an interval of this half width takes."""

    half_width: float = Field(gt=0, le=100)
