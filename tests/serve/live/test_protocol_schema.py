"""The schema, the code and the document agree."""

import json
import re
from dataclasses import fields, replace
from pathlib import Path

import jsonschema
import pytest
from serve.serving import FROM_CLIENT, FROM_SERVER, SCHEMA
from tones import tone_card

from studio.core import events as ev
from studio.serve.live import protocol as wire
from studio.serve.live import schema

DOCUMENT = Path(__file__).parents[3] / "docs" / "protocol.md"
NOT_AS_TEXT = {"frames", "played", "audio", "event"}


def blocks() -> list[dict]:
    """The JSON messages printed in the document."""
    text = DOCUMENT.read_text(encoding="utf-8")
    found = re.findall(r"```json\n(.*?)```", text, re.S)
    return [json.loads(line) for block in found for line in block.strip().splitlines()]


def test_schema_is_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_schema_file_is_generated_from_the_messages() -> None:
    assert schema.protocol_schema() == SCHEMA, "run python -m studio.serve.live.schema"


def test_every_event_is_in_the_schema() -> None:
    for kind in ev.Event.__subclasses__():
        if kind.type in NOT_AS_TEXT:
            assert f"server_{kind.type}" not in SCHEMA["$defs"]
            continue
        known = SCHEMA["$defs"][f"server_{kind.type}"]["properties"]
        assert set(known) == {f.name for f in fields(kind)} | {"type", "utterance"}, kind.type


def test_every_client_message_is_in_the_schema() -> None:
    for kind in wire.Message.__subclasses__():
        known = SCHEMA["$defs"][f"client_{kind.model_fields['type'].default}"]
        assert set(known["properties"]) == set(kind.model_fields)
        assert set(known["required"]) == {name for name, f in kind.model_fields.items() if f.is_required()} | {"type"}


def test_document_prints_every_message_and_only_valid_ones() -> None:
    printed = {"client": set(), "server": set()}
    for message in blocks():
        sides = [side for side, one in (("client", FROM_CLIENT), ("server", FROM_SERVER)) if one.is_valid(message)]
        assert sides, message
        for side in sides:
            printed[side].add(message["type"])
    for side, names in printed.items():
        assert {one.removeprefix(f"{side}_") for one in SCHEMA["$defs"] if one.startswith(f"{side}_")} - {
            "message"
        } == names


@pytest.mark.parametrize("extra", ["colour", "Utterance"])
def test_schema_is_strict(extra: str) -> None:
    message = {"type": "flush", "utterance": 1}
    assert FROM_CLIENT.is_valid(message)
    assert not FROM_CLIENT.is_valid(message | {extra: 1})


def test_hello_lists_what_a_voice_cannot_do() -> None:
    said = json.loads(wire.hello([replace(tone_card(), notes="It waits for the end of the text.")]))
    assert said["voices"][0]["notes"] == "It waits for the end of the text."
    jsonschema.validate(said, {**SCHEMA, "$ref": "#/$defs/server_hello"})
