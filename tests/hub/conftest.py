"""A hub on this machine, the client pointed at it, and a voice in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hub.hubserver import Hub, hub_server
from huggingface_hub import constants
from huggingface_hub.utils import close_session
from tinyvoice import write_tiny_voice

from studio.core.folders import PULLED_VARIABLE, VOICES
from studio.core.pulled import find_cards
from studio.engine.voices import load_voice
from studio.hub import download
from studio.hub.pull import Offer

REPO = "rook/tiny"


@pytest.fixture(scope="session")
def voice_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a voice, by name."""
    folder = write_tiny_voice(tmp_path_factory.mktemp("voice"))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """An empty hub; HF_ENDPOINT was read when the client was imported, so its constants are set."""
    with hub_server() as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        template = f"{server.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)  # its storage has a protocol of its own
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(download, "_RETRY_WAIT_S", 0.0)
        yield server
    close_session()


@pytest.fixture
def tiny(hub: Hub, voice_files: dict[str, bytes]) -> str:
    """The commit of a voice in the hub, as rook/tiny."""
    return hub.repository(REPO).commit(voice_files | {"README.md": b"---\nlicense: apache-2.0\n---\n"})


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of pulled voices, which is not there yet."""
    monkeypatch.setenv(PULLED_VARIABLE, str(tmp_path / "pulled"))
    return tmp_path / "pulled"


CPU = torch.device("cpu")


def accepted(offer: Offer) -> bool:
    return True


def load(name: str) -> None:
    card, folder = find_cards(VOICES)[name]
    load_voice(card, folder, CPU, 1)


def assert_no_voice(root: Path) -> None:
    assert "tiny" not in find_cards(VOICES)
    assert not root.exists() or {path.name for path in root.iterdir()} <= {".staging"}
