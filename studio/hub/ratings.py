"""The answers of a listening test as a published dataset: with pseudonyms, without free text and times of day."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session

from studio.core.errors import BadOption
from studio.hub.model_card import licence_fields, table
from studio.measure.tables import Column, csv_text
from studio.mos.campaign.config import campaign_config
from studio.mos.import_export.export import DICTIONARY, export_rows
from studio.mos.store.tables import Campaign

LEFT_OUT = {
    "comment": "what raters wrote, which may name them",
    "trace_a": "addresses in this machine's clip folder",
    "trace_b": "addresses in this machine's clip folder",
}
_DAY = "received_on"
_RECEIVED = Column(_DAY, "text", "day on which the answer was stored, UTC")
COLUMNS = tuple(_RECEIVED if one.name == "received_at" else one for one in DICTIONARY if one.name not in LEFT_OUT)


@dataclass(frozen=True)
class Publication:
    """A dataset to publish: files by name, and its description.

    Attributes:
        raters: number of pseudonyms.
        rows: one per score or choice.
    """

    files: Mapping[str, bytes]
    raters: int
    rows: int
    systems: Sequence[str]


def publication(session: Session, campaign: Campaign, licence: str) -> Publication:
    """The files of a campaign's dataset: answers, data dictionary, README.md. Raises BadOption: no answers."""
    rows = [_published(row) for row in export_rows(session, campaign)]
    if not rows:
        raise BadOption(f"{campaign.name} has no answers yet", "publish it when raters have answered")
    raters = {row["rater"] for row in rows}
    systems = sorted({row[key] for row in rows for key in ("system", "system_a", "system_b") if row[key]})
    readme = _readme(campaign, licence, len(rows), len(raters), systems)
    dictionary = [(column.name, column.type, column.meaning) for column in COLUMNS]
    files = {
        "answers.csv": csv_text([[c.name for c in COLUMNS], *([row[c.name] for c in COLUMNS] for row in rows)]),
        "dictionary.csv": csv_text([("column", "type", "meaning"), *dictionary]),
        "README.md": readme,
    }
    return Publication({name: text.encode() for name, text in files.items()}, len(raters), len(rows), systems)


def _published(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, _DAY: str(row["received_at"])[:10]}


def _readme(campaign: Campaign, licence: str, rows: int, raters: int, systems: Sequence[str]) -> str:
    from huggingface_hub import DatasetCard, DatasetCardData

    data = DatasetCardData(
        **licence_fields(licence),
        pretty_name=f"Listening test {campaign.name}",
        tags=["listening-test", "text-to-speech", campaign.kind],
        configs=[{"config_name": "answers", "data_files": "answers.csv"}],
    )
    questions = [(one.id, f"{one.low} to {one.high}", one.prompt) for one in campaign_config(campaign).questions]
    parts = [
        f"# Listening test {campaign.name}",
        f"{rows:,} answers ({campaign.kind}) of {raters:,} raters on {len(systems)} systems: {', '.join(systems)}.",
        "One row of `answers.csv` is a score or a choice. Raters have random pseudonyms; their comments and times"
        " of day are not published.",
        *(["## Questions", table(("question", "scale", "prompt"), questions)] if questions else []),
        "## Data dictionary",
        table(("column", "type", "meaning"), [(column.name, column.type, column.meaning) for column in COLUMNS]),
        f"## Licence\n\n{licence}",
    ]
    return str(DatasetCard(f"---\n{data.to_yaml()}\n---\n\n" + "\n\n".join(parts) + "\n"))
