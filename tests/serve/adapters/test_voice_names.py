"""Names of voices as other vendors' clients send them: aliases, options behind a name, and the language of a text."""

from dataclasses import replace

import httpx
import openai
import pytest
from serve.serving import Served, Serving
from tones import tone_card

from studio.core.errors import BadOption
from studio.core.options import OptionSpec
from studio.serve.adapters.voices import find_voice
from studio.serve.settings import ServeSettings

TEXT = "Alpha beta gamma."


def spoken(server: Served, voice: str) -> bytes:
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0, timeout=60.0)
    return client.audio.speech.create(input=TEXT, model="tts-1", voice=voice, response_format="pcm").content


def test_owner_may_say_who_a_vendors_name_is(serving: Serving) -> None:
    server = serving(voice_aliases=("alloy=tone:high", "aura-2-helena-en=tone:high"))
    assert spoken(server, voice="alloy") == spoken(server, voice="high")
    for path, body in (
        ("/v1/text-to-speech/alloy", {"text": TEXT}),
        ("/tts/bytes", {"transcript": TEXT, "voice": "alloy"}),
        ("/v1/speak?model=aura-2-helena-en", {"text": TEXT}),
    ):
        assert httpx.post(f"{server.url}{path}", json=body).status_code == 200
        assert server.engine.opened[-1].speaker == "high"
    with pytest.raises(openai.BadRequestError, match="there is no voice 'echo'"):
        spoken(server, voice="echo")
    with pytest.raises(BadOption, match="alloy=wren:clara"):
        ServeSettings(voice_aliases=("alloy",))


def test_options_of_a_voice_may_follow_its_name(serving: Serving) -> None:
    server = serving(voice_aliases=("alloy=tone:high?m=5",))
    voice = "tone:high?m=5&n=2"
    for path, body in (
        ("/v1/audio/speech", {"input": TEXT, "model": "tts-1", "voice": "alloy?n=2"}),
        ("/v1/audio/speech", {"input": TEXT, "model": "tts-1", "voice": voice}),
        ("/v1/text-to-speech/high%3Fm=5&n=2", {"text": TEXT}),
        ("/tts/bytes", {"transcript": TEXT, "voice": voice}),
        ("/v1/speak?model=high%3Fm=5%26n=2", {"text": TEXT}),
    ):
        assert httpx.post(f"{server.url}{path}", json=body).status_code == 200, path
        opened = server.engine.opened[-1]
        assert (opened.speaker, opened.request.options) == ("high", {"m": 5, "n": 2}), path
    with pytest.raises(openai.BadRequestError, match="no choice of language"):
        spoken(server, voice="high?language=fr")
    with pytest.raises(openai.BadRequestError, match="m cannot be 9"):
        spoken(server, voice="high?m=9")


def test_clients_say_the_language_of_their_text_where_a_voice_has_a_choice() -> None:
    card = tone_card()
    french = replace(card, name="french", options=(OptionSpec("language", "choice", "en", "", choices=("en", "fr")),))
    cards = (card, french)
    assert find_voice("french:low", "", cards, (), "fr")[1] == "french:low?language=fr"
    assert find_voice("french:low?language=en", "", cards, (), "fr")[1] == "french:low?language=en"
    assert find_voice("french:low?other=1", "", cards, (), "fr")[1] == "french:low?other=1&language=fr"
    assert find_voice("tone:low", "", cards, (), "fr")[1] == "tone:low"
    for written in ("fr-FR", "FR", "fr_CA"):
        assert find_voice("french:low", "", cards, (), written)[1] == "french:low?language=fr"
    for unknown in ("de", "french", "", "-fr", "fr&m=5"):
        assert find_voice("french:low", "", cards, (), unknown)[1] == "french:low"
    assert find_voice("french:low", "", cards)[1] == "french:low"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tts/bytes", {"transcript": TEXT, "voice": "high", "language": "fr"}),
        ("/v1/text-to-speech/high", {"text": TEXT, "language_code": "fr"}),
    ],
)
def test_a_language_reaches_the_voice(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, str]
) -> None:
    server = serving()
    choice = OptionSpec("language", "choice", "en", "Language", choices=("en", "fr"))
    card = server.engine.cards()[0]
    monkeypatch.setattr(server.engine, "_cards", (replace(card, options=(*card.options, choice)),))
    assert httpx.post(f"{server.url}{path}", json=body).status_code == 200
    assert server.engine.opened[-1].request.options == {"language": "fr"}
    other = {**body, **{name: "de" for name in body if "language" in name}}
    assert httpx.post(f"{server.url}{path}", json=other).status_code == 200
    assert server.engine.opened[-1].request.options == {}
