"""Vendors' own clients list models and voices, and look one up."""

import cartesia
import elevenlabs.core
import httpx
import openai
import pytest
from serve.adapters import test_cartesia, test_elevenlabs
from serve.serving import Serving

VOICES = ["tone:low", "tone:high"]


def test_openais_client_finds_a_model(serving: Serving) -> None:
    client = openai.OpenAI(base_url=f"{serving().url}/v1", api_key="any", max_retries=0)
    assert client.models.retrieve("tone").owned_by == "speakstream"
    with pytest.raises(openai.NotFoundError, match="there are tone"):
        client.models.retrieve("nothing")


def test_elevenlabs_client_finds_models_and_voices(serving: Serving) -> None:
    client = test_elevenlabs.client_of(serving())
    assert [(one.model_id, one.can_do_text_to_speech) for one in client.models.list()] == [("tone", True)]
    assert [one.voice_id for one in client.voices.search().voices] == VOICES
    assert client.voices.get("tone:low").name == client.voices.get_all().voices[0].name
    with pytest.raises(elevenlabs.core.ApiError) as wrong:
        client.voices.get("nobody")
    assert wrong.value.status_code == 404 and "tone:low" in str(wrong.value.body)


def test_cartesias_client_finds_voices(serving: Serving) -> None:
    server = serving()
    client = test_cartesia.client_of(server)
    assert [one.id for one in client.voices.list()] == VOICES
    assert client.voices.get("tone:high").language == "en"
    with pytest.raises(cartesia.NotFoundError, match="tone:low"):
        client.voices.get("nobody")
    before_pages = httpx.get(f"{server.url}/voices", headers={"Cartesia-Version": "2024-06-10"}).json()
    assert [one["id"] for one in before_pages] == VOICES


@pytest.mark.parametrize(
    "path", ["/voices", "/voices/tone:low", "/v2/voices", "/v1/voices/tone:low", "/v1/models/tone"]
)
def test_lists_want_the_key(serving: Serving, path: str) -> None:
    server = serving(key=test_cartesia.KEY)
    assert httpx.get(server.url + path).status_code == 401
    assert httpx.get(server.url + path, headers={"x-api-key": test_cartesia.KEY}).status_code == 200
