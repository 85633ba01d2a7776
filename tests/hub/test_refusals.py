"""What the hub refuses, or sends wrongly: a sentence that says what to do, and no voice."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hub.conftest import REPO, accepted, assert_no_voice
from hub.hubserver import TOKEN, Hub, sibling

from studio.core.errors import BadVoice, StudioError
from studio.hub import download
from studio.hub.client import HubBusy, HubError
from studio.hub.listing import LIMITS, list_repository
from studio.hub.pull import pull


def private(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repository(REPO).private = True


def gated(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repository(REPO).gated = True


def not_granted(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repository(REPO).gated = True
    monkeypatch.setenv("HF_TOKEN", TOKEN)


def bad_token(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_expired")


def forbidden(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.faults.status = 403


def limited(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.faults.status = 429


def broken(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.faults.status = 503


def missing(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repositories.clear()


def missing_for_a_user(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.repositories.clear()


def moved(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repositories["crow/tiny"] = hub.repositories.pop(REPO)
    hub.moved[REPO] = "crow/tiny"


def dead(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")


def silent(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.faults.silent = True
    monkeypatch.setattr("studio.hub.listing._TIMEOUT_S", 0.3)


def slow(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.faults.trickle_s = 0.01
    monkeypatch.setattr(download, "_GRACE_S", 0.2)
    monkeypatch.setattr(download, "_MIN_BYTES_PER_S", 1 << 30)


def offline(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def changed(change: Callable[[bytes], bytes]) -> Callable[[Hub, pytest.MonkeyPatch], None]:
    def apply(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
        files = [*hub.repository(REPO).commits.values()][-1]
        hub.faults.changed = {"speakstream.safetensors": change(files["speakstream.safetensors"])}

    return apply


def _edit(hub: Hub, edit: Callable[[dict[str, bytes]], object]) -> None:
    files = dict([*hub.repository(REPO).commits.values()][-1])
    edit(files)
    hub.repository(REPO).commit(files)


def wrong_card(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The card names other weights than those that the hub has."""
    _edit(hub, lambda files: files.update({"speakstream.safetensors": files["sourcefilter.safetensors"]}))


def pickled(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def edit(files: dict[str, bytes]) -> None:
        files["speakstream.bin"] = files.pop("speakstream.safetensors")
        card = json.loads(files["card.json"])
        card["sha256"]["speakstream.bin"] = card["sha256"].pop("speakstream.safetensors")
        files["card.json"] = json.dumps(card).encode()

    _edit(hub, edit)


def only_a_pickle(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repository(REPO).commit({"pytorch_model.bin": b"\x80\x04."})


def no_card(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    _edit(hub, lambda files: files.pop("card.json"))


def bad_card(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    _edit(hub, lambda files: files.update({"card.json": b'{"name": "../../tiny"}'}))


def no_hub(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.faults.listed = [{"name": "of another API"}]


def another_kind(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def edit(files: dict[str, bytes]) -> None:
        card = json.loads(files["card.json"])
        files["card.json"] = json.dumps(card | {"sha256": card["sha256"] | {"bpe.onnx": "0" * 64}}).encode()
        files["bpe.onnx"] = b"pieces"

    _edit(hub, edit)


def listing(*names: str) -> Callable[[Hub, pytest.MonkeyPatch], None]:
    def apply(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
        files = [*hub.repository(REPO).commits.values()][-1]
        hub.faults.listed = [*(sibling(*one) for one in files.items()), *(sibling(name, b"{}") for name in names)]

    return apply


def commit_path(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.faults.info = {"sha": "x/../../../evil"}


def negative_size(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would make room for files beyond the limits."""
    listing("negative.json")(hub, monkeypatch)
    assert hub.faults.listed is not None
    hub.faults.listed[-1]["size"] = -(10**12)


REFUSALS: dict[str, tuple[Callable[[Hub, pytest.MonkeyPatch], None], type[StudioError], str, str]] = {
    "private": (private, HubError, "no repository rook/tiny, or it is private", "HF_TOKEN"),
    "gated": (gated, HubError, "is gated", "accept its conditions"),
    "not granted": (not_granted, HubError, "is gated", "accept its conditions"),
    "bad token": (bad_token, HubError, "does not know the token", "hf auth login"),
    "forbidden": (forbidden, HubError, "not allowed", "the right"),
    "limited": (limited, HubBusy, "no more requests", "wait"),
    "broken": (broken, HubBusy, r"has an error \(503\)", "later"),
    "missing": (missing, HubError, "no repository rook/tiny", "spelling"),
    "missing for a user": (missing_for_a_user, HubError, "no repository rook/tiny", "spelling"),
    "moved": (moved, HubError, "has moved to crow/tiny", "studio voices pull crow/tiny"),
    "dead": (dead, HubBusy, "cannot be reached", "HF_ENDPOINT"),
    "silent": (silent, HubBusy, "does not answer", "HF_HUB_DOWNLOAD_TIMEOUT"),
    "slow": (slow, HubError, "less than", "goes on where it stopped"),
    "offline": (offline, HubError, "HF_HUB_OFFLINE", "unset it"),
    "another file": (changed(lambda data: data[:-1] + b"?"), HubError, "its hash differs", "owner"),
    "longer file": (changed(lambda data: data + b"more"), HubError, "longer than", "pull another revision"),
    "wrong card": (wrong_card, BadVoice, "not the file that its card names", "owner"),
    "pickle": (pickled, HubError, "speakstream.bin of rook/tiny is a pickle, which can run code", "safetensors"),
    "only a pickle": (only_a_pickle, HubError, "no card.json.*pytorch_model.bin, a pickle", "safetensors"),
    "another kind": (another_kind, HubError, "bpe.onnx of rook/tiny is of a kind", ".safetensors"),
    "no card": (no_card, HubError, "has no card.json", "card.json and safetensors"),
    "bad card": (bad_card, BadVoice, "not complete", ""),
    "no hub": (no_hub, HubError, "not understood", "HF_ENDPOINT"),
    "parent": (listing("../evil.json"), HubError, "leads out", "nothing was fetched"),
    "nested parent": (listing("a/../../evil.json"), HubError, "leads out", "nothing was fetched"),
    "absolute": (listing("/etc/evil.json"), HubError, "leads out", "nothing was fetched"),
    "backslash": (listing("..\\evil.json"), HubError, "leads out", "nothing was fetched"),
    "escape": (listing("\x1b[2Jevil.json"), HubError, "leads out", "nothing was fetched"),
    "hidden": (listing(".evil.json"), HubError, "lists", "letters, digits"),
    "commit as a path": (commit_path, HubError, "as the commit of", "HF_ENDPOINT"),
    "negative size": (negative_size, HubError, "without a size", "HF_ENDPOINT"),
    "many files": (listing(*(f"{n}.json" for n in range(70))), HubError, "64 are the limit", "--max-files 7"),
    "huge listing": (listing(*(f"a/{n}" for n in range(20_000))), HubError, "lists 20,00", "up to 1,000"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_say_what_to_do_and_leave_no_voice(
    hub: Hub, tiny: str, root: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    spoil, kind, what, do = REFUSALS[case]
    spoil(hub, monkeypatch)
    with pytest.raises(kind, match=what) as caught:
        pull(REPO, root, accepted)
    assert do in caught.value.do and "signature" not in str(caught.value)
    assert_no_voice(root)
    assert not (root.parent / "evil").exists()


@pytest.mark.parametrize("licence", [["mit", 5, None], {"a": "b"}, 7, "x\x1b[2J\u202e" + "y" * 9000])
def test_a_licence_of_another_form_is_text(hub: Hub, tiny: str, licence: object) -> None:
    hub.faults.info = {"cardData": {"license": licence}}
    stated = list_repository(REPO, "", LIMITS).licence
    assert stated and stated.isprintable() and len(stated) <= 200


@pytest.mark.parametrize("revision", ["gone", "f" * 40, "a/../b", "main%2f"])
def test_a_revision_that_is_not_there(tiny: str, root: Path, revision: str) -> None:
    with pytest.raises(HubError, match="has no revision"):
        pull(f"{REPO}@{revision}", root, accepted)
    assert_no_voice(root)


@pytest.mark.parametrize("repo", ["", "a/b/c", "../x", "a b", "https://x/y", "-x/y", "a/b.git", "\x1b[2J/x"])
def test_names_that_are_no_repository(hub: Hub, root: Path, repo: str) -> None:
    with pytest.raises(HubError, match="no name of a repository"):
        pull(repo, root, accepted)
    assert not hub.requests
