"""Settings are strict: an unknown key is an error that lists the known ones."""

from pathlib import Path
from typing import Any

import pytest

from studio.core.errors import BadFile, BadOption
from studio.serve.settings import ServeSettings, load_settings


def written(folder: Path, text: str) -> Path:
    path = folder / "studio.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_file_then_environment(tmp_path: Path) -> None:
    file = written(tmp_path, '[serve]\nport = 8000\nallowed_hosts = ["a.example"]\ntraces_folder = "kept"\n')
    assert load_settings(file, {}) == ServeSettings(port=8000, allowed_hosts=("a.example",), traces_folder=Path("kept"))
    environ = {"STUDIO_SERVE_PORT": "9000", "STUDIO_SERVE_ALLOWED_HOSTS": "b.example, c.example", "STUDIO_DATA": "/x"}
    settings = load_settings(file, environ)
    assert (settings.port, settings.allowed_hosts) == (9000, ("b.example", "c.example"))
    assert load_settings(None, {}) == ServeSettings()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[serve]\nprot = 8000\n", "known are host, port"),
        ("[server]\nport = 8000\n", r"known is the table \[serve\]"),
        ("serve = 3\n", "no table"),
        ("[serve]\nport = '8000'\n", "give a whole number"),
        ("[serve]\nport = true\n", "give a whole number"),
        ("[serve]\nport = 80000\n", "0 .* to 65535"),
        ("[serve]\nallowed_hosts = 'a'\n", "a list of strings"),
        ("[serve]\nroot_path = 'studio/'\n", "begin it with /"),
        ("[serve]\nmax_traces = 0\n", "from 1 on"),
        ("[serve]\ncredit_ms = 90000\n", "credit_cap_ms"),
        ("[serve]\nlog_level = 'loud'\n", "one of critical"),
        ("[serve]\ntraces_folder = ''\n", "traces_folder is empty"),
    ],
)
def test_bad_settings_are_named(tmp_path: Path, text: str, wanted: str) -> None:
    with pytest.raises(BadOption, match=wanted):
        load_settings(written(tmp_path, text), {})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("STUDIO_SERVE_PROT", "1"),
        ("STUDIO_SERVE_PORT", "one"),
        ("STUDIO_SERVE_PORT", "-1"),
        ("STUDIO_SERVE_TRACES_FOLDER", ""),
    ],
)
def test_bad_environment_variables(variable: str, value: str) -> None:
    with pytest.raises(BadOption):
        load_settings(None, {variable: value})


def test_invalid_settings_file(tmp_path: Path) -> None:
    with pytest.raises(BadFile):
        load_settings(tmp_path / "absent.toml", {})
    with pytest.raises(BadFile):
        load_settings(written(tmp_path, "[serve\n"), {})


def test_a_language_model_is_an_address_with_a_name(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text('[serve]\nllm_url = "http://127.0.0.1:11434/v1"\nllm_model = "parrot"\n')
    endpoint = load_settings(file, {"STUDIO_SERVE_LLM_KEY_ENV": "LLM_KEY"}).chat_endpoint()
    assert endpoint is not None and (endpoint.model, endpoint.key_env) == ("parrot", "LLM_KEY")
    assert ServeSettings().chat_endpoint() is None
    for url, model in (("127.0.0.1:1", "parrot"), ("http://127.0.0.1:1", "")):
        with pytest.raises(BadOption):
            ServeSettings(llm_url=url, llm_model=model).chat_endpoint()


@pytest.mark.parametrize(
    ("given", "is_local"),
    [
        ({}, True),
        ({"host": "::1"}, True),
        ({"host": "0.0.0.0"}, False),
        ({"allowed_hosts": ("tts.example.org",)}, False),
        ({"proxies": ("127.0.0.1",)}, False),
    ],
)
def test_server_is_local_where_no_other_machine_reaches_it(given: dict[str, Any], is_local: bool) -> None:
    assert ServeSettings(**given).is_local == is_local
