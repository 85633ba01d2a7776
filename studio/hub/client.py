"""The Hugging Face Hub's client, and its errors as messages with a remedy.

The client reads its token (HF_TOKEN, or a stored login), HF_ENDPOINT, HF_HUB_OFFLINE and HF_HUB_DOWNLOAD_TIMEOUT
itself. No message repeats headers, or an address with a signature.
"""

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from studio.core.checks import to_printable
from studio.core.errors import StudioError, needs

if TYPE_CHECKING:
    from huggingface_hub import HfApi

LIBRARY = "streaming-tts-studio"  # this program's name in requests to the hub
_LOG_IN = "set HF_TOKEN to a token that may read it, or run: hf auth login"
_WAIT = "check the network, HF_ENDPOINT and the proxy, then repeat the command: it goes on where it stopped"


class HubError(StudioError, code="hub"):
    """The hub refuses a request, or does not answer."""


class HubBusy(HubError, code="hub_busy"):
    """The hub fails or cannot be reached at the moment; the call may be repeated."""


def _needs_client() -> AbstractContextManager[None]:
    return needs("voices from the hub need huggingface-hub", "hub")


def hub_api() -> "HfApi":
    """The client. Raises NeedsPackage."""
    with _needs_client():
        from huggingface_hub import HfApi
    return HfApi(library_name=LIBRARY)


def has_token() -> bool:
    """Whether the client has a token, which a push needs. Raises NeedsPackage."""
    with _needs_client():
        from huggingface_hub import get_token
    return get_token() is not None


def parse_address(address: str) -> tuple[str, str]:
    """Repository and revision (may be empty) of ``owner/name@revision``. Raises HubError."""
    with _needs_client():
        from huggingface_hub.errors import HFValidationError
        from huggingface_hub.utils import validate_repo_id
    repo, _, revision = address.partition("@")
    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        problem = f"{to_printable(repo, 120)!r} is no name of a repository"
        raise HubError(problem, "name it as owner/name or owner/name@revision") from error
    if len(revision) > 200 or not revision.isprintable():
        raise HubError("the revision is too long, or holds control characters", "name a branch, a tag or a commit")
    return repo, revision


@contextmanager
def hub_errors(repo: str, revision: str = "") -> Generator[None]:
    """Convert the client's errors within the block to HubError or HubBusy."""
    import httpx2  # used by the client
    from huggingface_hub import constants, errors

    page = f"{constants.ENDPOINT}/{repo}"
    try:
        yield
    except errors.OfflineModeIsEnabled as error:
        raise HubError("HF_HUB_OFFLINE is set, so nothing is fetched", "unset it; pulled voices need no hub") from error
    except errors.GatedRepoError as error:
        do = f"accept its conditions at {page} while signed in, then {_LOG_IN}"
        raise HubError(f"{repo} is gated: its owner has to grant access", do) from error
    except errors.RevisionNotFoundError as error:
        do = f"branches, tags and commits are listed at {page}/commits/main; without @, the newest is taken"
        raise HubError(f"{repo} has no revision {revision!r:.80}, or has it no longer", do) from error
    except errors.RepositoryNotFoundError as error:
        do = f"check the spelling; for a private one, {_LOG_IN}"
        raise HubError(f"there is no repository {repo}, or it is private", do) from error
    except errors.RemoteEntryNotFoundError as error:
        raise HubError(f"a file of {repo} is no longer there", "pull the newest revision") from error
    except errors.HfHubHTTPError as error:
        raise _of_status(repo, error.response.status_code) from error
    except httpx2.TimeoutException as error:
        problem = f"{constants.ENDPOINT} does not answer"
        raise HubBusy(problem, f"{_WAIT}; HF_HUB_DOWNLOAD_TIMEOUT is the wait in seconds") from error
    except httpx2.TransportError as error:
        raise HubBusy(f"{constants.ENDPOINT} cannot be reached: {type(error).__name__}", _WAIT) from error
    except (httpx2.HTTPError, ValueError, KeyError, TypeError, RuntimeError) as error:
        # Too many redirects, unexpected JSON, or an upload that failed despite retries.
        problem = f"{constants.ENDPOINT} answers what is not understood: {to_printable(error, 200)}"
        raise HubError(problem, "check that HF_ENDPOINT is the address of a hub") from error


def _of_status(repo: str, status: int) -> HubError:
    if status == 401:
        return HubError("the hub does not know the token", f"renew it: {_LOG_IN}")
    if status == 403:
        return HubError(f"the token is not allowed to use {repo} so", f"give it the right at the hub, or {_LOG_IN}")
    if status == 429:
        return HubBusy("the hub answers no more requests for now", "wait some minutes and repeat the command")
    if status >= 500:
        return HubBusy(f"the hub has an error ({status})", "repeat the command later")
    return HubError(f"the hub refuses the request ({status})", "check the repository's name and revision")
