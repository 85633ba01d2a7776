"""Ids that recruiting panels append to the raters' link."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class PanelNames:
    """URL parameters of a panel: the person's id, the study, and others that its files need."""

    person: str
    study: str = ""  # one person in two studies is two raters
    more: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All parameters, the person's first."""
        return (self.person, *((self.study,) if self.study else ()), *self.more)


# The first panel whose ``person`` parameter is present applies. ``participant``: any other panel or lab list.
PANELS: Mapping[str, PanelNames] = {
    "Prolific": PanelNames("PROLIFIC_PID", "STUDY_ID", ("SESSION_ID",)),
    "Mechanical Turk": PanelNames("workerId", "", ("hitId", "assignmentId")),
    "CloudResearch Connect": PanelNames("participantId", "projectId", ("assignmentId",)),
    "SONA": PanelNames("survey_code", "experiment_id"),
    "any": PanelNames("participant", "study", ("session",)),
}
PARAMETERS = tuple(dict.fromkeys(name for panel in PANELS.values() for name in panel.names))


def panel_of(parameters: Mapping[str, str]) -> PanelNames | None:
    """The first panel whose ``person`` parameter is present; None without one."""
    return next((panel for panel in PANELS.values() if parameters.get(panel.person)), None)


def person_id(parameters: Mapping[str, str]) -> str | None:
    """The panel's id of the person."""
    panel = panel_of(parameters)
    return None if panel is None else parameters[panel.person]


def identity_text(parameters: Mapping[str, str]) -> str | None:
    """Text that identifies the person in a campaign, equal in every browser; None without a panel's id."""
    panel = panel_of(parameters)
    if panel is None:
        return None
    name = "" if panel is PANELS["Prolific"] else f"{panel.person}|"
    return f"panel|{name}{parameters.get(panel.study, '')}|{parameters[panel.person]}"
