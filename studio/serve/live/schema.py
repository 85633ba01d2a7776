"""The JSON Schema of the wire protocol, from the messages' types: ``python -m studio.serve.live.schema`` writes it."""

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from studio.core import events as ev
from studio.serve.live import protocol as wire

FILE = Path(__file__).parent / "protocol.schema.json"
NOT_AS_TEXT = (ev.Frames, ev.Played, ev.Audio)  # in traces only; audio is sent as binary packets
_U32 = {"minimum": 0, "maximum": wire.MAX_U32}
_LIMITS = {
    ("eos", "p"): {"minimum": 0, "maximum": 1},
    ("revised", "take"): _U32,
    ("typed", "before_ms"): {"items": {"type": "number"}, "maxItems": 1000},
}


class _Generator(GenerateJsonSchema):
    """Without titles; docstrings as plain text."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


class _EventGenerator(_Generator):
    """No number of an event is negative."""

    def int_schema(self, schema: Any) -> dict[str, Any]:
        return {"minimum": 0} | super().int_schema(schema)

    def float_schema(self, schema: Any) -> dict[str, Any]:
        return {"minimum": 0} | super().float_schema(schema)


def protocol_schema() -> dict[str, Any]:
    """The schema of every message."""
    messages = {f"client_{name}": _schema(kind) for name, kind in wire.CLIENT_MESSAGES.items()}
    for name, kind in (("hello", wire.Hello), ("error", wire.ErrorMessage), ("trace", wire.TraceMessage)):
        messages[f"server_{name}"] = _schema(kind)
    for kind in ev.Event.__subclasses__():
        if kind not in NOT_AS_TEXT:
            messages[f"server_{kind.type}"] = _event(kind)
    definitions: dict[str, Any] = {}
    for schema in messages.values():
        definitions |= schema.pop("$defs", {})
    for side in ("client", "server"):
        refs = [{"$ref": f"#/$defs/{name}"} for name in messages if name.startswith(side)]
        definitions[f"{side}_message"] = {"oneOf": refs}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"studio/protocol/{wire.PROTOCOL}",
        "title": f"Streaming-TTS Studio, /ws/speak, protocol {wire.PROTOCOL}",
        "description": "JSON text messages: client_message or server_message. docs/protocol.md has the binary packets.",
        "$defs": messages | definitions,
        "anyOf": [{"$ref": "#/$defs/client_message"}, {"$ref": "#/$defs/server_message"}],
    }


def _schema(kind: type, generator: type[_Generator] = _Generator) -> dict[str, Any]:
    schema = TypeAdapter(kind).json_schema(schema_generator=generator)
    for one in (schema, *schema.get("$defs", {}).values()):
        one["additionalProperties"] = False
        one["description"] = one["description"].replace("``", "")
        del one["title"]
    if "type" in schema["properties"]:
        schema["properties"]["type"].pop("default", None)
        schema["required"] = ["type", *(name for name in schema["required"] if name != "type")]
    return schema


def _event(kind: type[ev.Event]) -> dict[str, Any]:
    """An event as it is sent: with its type, the client's number of the utterance, and all fields."""
    schema = _schema(kind, _EventGenerator)
    fields = {name: field | _LIMITS.get((kind.type, name), {}) for name, field in schema["properties"].items()}
    if "options" in fields:
        fields["options"] = _schema(wire.SetOptions)["properties"]["options"]
    schema["properties"] = {"type": {"const": kind.type}, **fields, "utterance": {"type": "integer", **_U32}}
    for field in schema["properties"].values():
        field.pop("default", None)
    schema["required"] = [*schema["properties"]]
    return schema


if __name__ == "__main__":
    FILE.write_text(json.dumps(protocol_schema(), indent=1) + "\n", encoding="utf-8")
