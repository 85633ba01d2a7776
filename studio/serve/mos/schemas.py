"""Request bodies of the listening tests."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from studio.mos.sessions.panels import PARAMETERS
from studio.mos.store.json_columns import write_json
from studio.serve.middleware.bodies import MAX_BODY_BYTES
from studio.serve.responses import StrictModel

MAX_DEVICE_CHARS = 3000  # of JSON; before consent it is part of the token

_Name = Annotated[str, Field(min_length=1, max_length=80)]
PanelId = Annotated[str, Field(min_length=1, max_length=120, pattern=r"^[^|\x00-\x1f]+$")]
Fact = Annotated[str, Field(max_length=300)] | bool | int | float | None


class JoinCreate(StrictModel):
    """A rater joins or returns."""

    campaign: str = Field(max_length=80)
    key: str = Field(max_length=64)
    panel: dict[str, PanelId | None] = Field(default_factory=dict, max_length=6)  # named as in sessions.panels
    code: str | None = Field(default=None, max_length=40)
    device: dict[Annotated[str, Field(max_length=40)], Fact] = Field(default_factory=dict, max_length=32)

    @field_validator("panel")
    @classmethod
    def _check_names(cls, panel: dict[str, str | None]) -> dict[str, str | None]:
        if unknown := set(panel) - set(PARAMETERS):
            raise ValueError(f"has {min(unknown)[:40]!r}; known are {', '.join(PARAMETERS)}")
        return panel

    @field_validator("device")
    @classmethod
    def _check_length(cls, device: dict[str, Any]) -> dict[str, Any]:
        if len(write_json(device)) > MAX_DEVICE_CHARS:
            raise ValueError(f"has more than {MAX_DEVICE_CHARS} characters")
        return device


class StageCreate(StrictModel):
    """The result of a stage; the content of ``data`` depends on the stage."""

    stage: str = Field(max_length=40)
    data: dict[str, Any] = Field(default_factory=dict, max_length=32)

    @field_validator("data")
    @classmethod
    def _is_json(cls, data: dict[str, Any]) -> dict[str, Any]:
        write_json(data)
        return data


class SessionCreate(StrictModel):
    """The owner signs a browser in."""

    token: str = Field(max_length=200)


class StateCreate(StrictModel):
    """The owner opens or closes a campaign."""

    state: Literal["open", "closed"]


class UtteranceCreate(StrictModel):
    """The owner adds an utterance to a draft, by the token of its trace; ``template`` creates the draft.

    ``sure`` allows an addition that makes a complete draft incomplete.
    """

    trace: str = Field(max_length=40)
    template: str | None = Field(default=None, max_length=40)
    sure: bool = False


class SoundRemove(StrictModel):
    """The owner removes a script, a system, or one sound of both from a draft."""

    item: str | None = Field(default=None, max_length=80)
    system: str | None = Field(default=None, max_length=80)


class DraftCreate(StrictModel):
    """The owner creates a draft from a template."""

    name: _Name
    template: str = Field(max_length=40)


class SettingsChange(StrictModel):
    """The owner replaces a draft's settings; ``seen`` is the version that was edited."""

    settings: dict[str, Any] = Field(max_length=40)
    seen: str | None = Field(default=None, max_length=40)

    @field_validator("settings")
    @classmethod
    def _is_json(cls, settings: dict[str, Any]) -> dict[str, Any]:
        write_json(settings)
        return settings


class SystemPut(StrictModel):
    """The owner adds a system or changes its role."""

    system: _Name
    role: Literal["test", "reference"] = "test"


class SystemDrop(StrictModel):
    """The owner removes a system."""

    system: _Name


class TextsPut(StrictModel):
    """The owner replaces the test scripts, one a line; ``sure`` allows the loss of sounds of removed scripts."""

    texts: str = Field(max_length=MAX_BODY_BYTES)
    sure: bool = False


class SoundsTake(StrictModel):
    """The owner imports sounds from a folder in the data folder, by default the uploads."""

    folder: _Name | None = None


class PlanAsk(StrictModel):
    """The owner asks how many raters an interval of this half-width needs, or "no worse by more than" this margin."""

    half_width: float | None = Field(default=None, gt=0, le=100)
    margin: float | None = Field(default=None, gt=0, le=100)

    @model_validator(mode="after")
    def _has_one_aim(self) -> "PlanAsk":
        if (self.half_width is None) == (self.margin is None):
            raise ValueError("give half_width or margin")
        return self
