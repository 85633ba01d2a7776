"""Who may do what: the owner's token, signed links, raters' and annotators' tokens, addresses of clips, and limits.

Everything is derived from one random key in the store; the owner's token itself is only there as a hash.
"""

import hashlib
import hmac
import json
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from math import ceil
from typing import Any

from sqlmodel import Session

from studio.core.errors import StudioError
from studio.mos.store.database import Store
from studio.mos.store.tables.secrets import Secret

_VISITOR = "visitor"
WRONG_BURST, WRONG_PER_S = 10, 10 / 60  # forged links, tokens and addresses of one network address


class Forbidden(StudioError):
    """A link, a token or an address is not valid for what was asked."""

    code = "forbidden"


class TooMany(StudioError):
    """Too many calls in a short time; after ``retry_s`` another one is taken."""

    code = "too_many"

    def __init__(self, what: str, do: str = "", retry_s: int = 1) -> None:
        super().__init__(what, do)
        self.retry_s = retry_s


@dataclass(frozen=True)
class Visitor:
    """Somebody who came by a link and has agreed to nothing: all there is of them is in the token that they hold.

    Attributes:
        panel: who a recruiting panel says they are; kept with ``device`` once they agree.
    """

    campaign_id: int
    role: str
    identity: str
    panel: dict[str, str]
    device: dict[str, Any]


class Access:
    """Makes and checks signatures. ``first_token`` is the owner's token when it was made just now, else None."""

    def __init__(self, store: Store) -> None:
        key, self.first_token = store.write_now(_prepare)
        self._key = bytes.fromhex(key)
        self._store = store
        self._wrong = Limit(burst=WRONG_BURST, per_second=WRONG_PER_S)

    def link_key(self, campaign_id: int, role: str) -> str:
        """The signature in a campaign's link; ``role`` is panel or preview."""
        return self._mac("link", campaign_id, role)

    def link_id(self, campaign_id: int) -> str:
        """What a link calls its campaign: nothing that raters could read anything in, as they could in its name."""
        return hmac.digest(self._key, _bytes(f"test|{campaign_id}"), "sha256").hex()[:16]

    def role_of_link(self, campaign_id: int, key: str) -> str:
        """What a link lets its bearer be: panel or preview. Raises Forbidden."""
        for role in ("panel", "preview"):
            if _same(self.link_key(campaign_id, role), key):
                return role
        raise Forbidden("this link is not valid", "ask the people who run the test for a new one")

    def identity(self, campaign_id: int, role: str, who: str) -> str:
        """A keyed hash of who somebody is in one campaign: the same person in two campaigns cannot be matched by it."""
        return self._mac("identity", campaign_id, role, who)

    def rater_token(self, rater_id: int) -> str:
        """What a rater's browser sends with every call."""
        return f"{rater_id}.{self._mac('rater', rater_id)}"

    def rater_of(self, token: str) -> int:
        """The rater of a token. Raises Forbidden."""
        number, _, mac = token.partition(".")
        known = number.isascii() and number.isdigit() and len(number) < 12
        if known and _same(self._mac("rater", int(number)), mac):
            return int(number)
        raise Forbidden("this sitting is not known", "open the test's link again")

    def visitor_token(self, visitor: Visitor) -> str:
        """What a browser sends until its rater has agreed; what it says is signed, and kept nowhere."""
        said = urlsafe_b64encode(json.dumps(asdict(visitor), allow_nan=False).encode()).decode()
        return f"{_VISITOR}.{said}.{self._mac(_VISITOR, said)}"

    def visitor_of(self, token: str) -> Visitor | None:
        """The visitor of a token; None for a token of another kind. Raises Forbidden."""
        kind, _, rest = token.partition(".")
        if kind != _VISITOR:
            return None
        said, _, mac = rest.partition(".")
        if not _same(self._mac(_VISITOR, said), mac):
            raise Forbidden("this sitting is not known", "open the test's link again")
        return Visitor(**json.loads(urlsafe_b64decode(said)))

    def annotator_token(self, assignment: str, number: int) -> str:
        """What lets one annotator of an assignment in; the link that they are given ends with it."""
        return f"{assignment}.{number}.{self._mac('annotate', assignment, number)}"

    def annotator_of(self, token: str) -> tuple[str, int]:
        """The assignment of a token, and which of its annotators it is. Raises Forbidden."""
        assignment, _, rest = token.partition(".")
        number, _, mac = rest.partition(".")
        known = number.isascii() and number.isdigit() and len(number) < 4
        if known and _same(self._mac("annotate", assignment, int(number)), mac):
            return assignment, int(number)
        raise Forbidden("this link is not valid", "ask the people who gave it to you for a new one")

    def clip_key(self, rater_id: int, trial: str, slot: int) -> str:
        """The last part of a clip's address: good for this rater, screen and slot alone."""
        return self._mac("clip", rater_id, trial, slot)

    def clip_seed(self, trial: str, slot: int) -> int:
        """What a sound's own noise is drawn from: the same whenever it is fetched, and known to nobody."""
        return int.from_bytes(hmac.digest(self._key, _bytes(f"noise|{trial}|{slot}"), "sha256")[:8])

    def script_of(self, campaign_id: int, text: str) -> str:
        """What stands for a text that was typed: the same for the same words, and nobody can guess them from it."""
        words = " ".join(text.casefold().split())
        return "typed-" + hmac.digest(self._key, _bytes(f"script|{campaign_id}|{words}"), "sha256").hex()[:16]

    def check_clip(self, rater_id: int, trial: str, slot: int, key: str) -> None:
        """Raises Forbidden unless the address was made for this rater."""
        if not _same(self.clip_key(rater_id, trial, slot), key):
            raise Forbidden("this sound is not yours to hear", "go on from the test's own page")

    def check_owner(self, token: str) -> None:
        """Raises Forbidden unless this is the owner's token. It is looked up each time: a command may replace it."""
        with self._store.read() as session:
            row = session.get(Secret, "owner_sha256")
        assert row is not None, "made at first start"
        if not _same(row.value, _sha(token)):
            raise Forbidden("the owner's token is wrong", "`studio campaign token` makes a new one")

    @contextmanager
    def watched(self, address: str) -> Generator[None]:
        """Count what is forged by the network address that it comes from; who brings the right thing is not counted.

        Raises:
            TooMany: instead of Forbidden, once too many came from there.
        """
        try:
            yield
        except Forbidden:
            self._wrong.take(address)
            raise

    def new_owner_token(self) -> str:
        """Replace the owner's token and answer the new one: it is shown once and stored only as a hash."""
        token = secrets.token_urlsafe(32)

        def replace(session: Session) -> None:
            row = session.get(Secret, "owner_sha256")
            assert row is not None, "made at first start"
            row.value = _sha(token)
            session.add(row)

        self._store.write_now(replace)
        return token

    def _mac(self, *parts: object) -> str:
        message = _bytes("|".join(map(str, parts)))
        return urlsafe_b64encode(hmac.digest(self._key, message, "sha256")[:18]).decode()


def _prepare(session: Session) -> tuple[str, str | None]:
    key = session.get(Secret, "key")
    token = None
    if key is None:
        key = Secret(name="key", value=secrets.token_hex(32))
        session.add(key)
    if session.get(Secret, "owner_sha256") is None:
        token = secrets.token_urlsafe(32)
        session.add(Secret(name="owner_sha256", value=_sha(token)))
    return key.value, token


def _sha(token: str) -> str:
    return hashlib.sha256(_bytes(token)).hexdigest()


def _same(ours: str, theirs: str) -> bool:
    return hmac.compare_digest(_bytes(ours), _bytes(theirs))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # what strangers send may hold anything


@dataclass
class Limit:
    """So many calls at once, refilled at so many a second, for each caller; forgets the callers of longest ago.

    Raters are limited by their own token, never by address (a class shares one); addresses only for bad signatures.
    """

    burst: float
    per_second: float
    clock: Callable[[], float] = time.monotonic
    callers: int = 20_000
    _left: "OrderedDict[str, tuple[float, float]]" = field(default_factory=OrderedDict[str, tuple[float, float]])

    def is_over(self, caller: str) -> bool:
        """Whether the next call would be one too many; nothing is counted."""
        return self._now_left(caller, self.clock()) < 1.0

    def take(self, caller: str) -> None:
        """Count a call; a refused one costs nothing. Raises TooMany."""
        now = self.clock()
        left = self._now_left(caller, now)
        self._left.pop(caller, None)
        self._left[caller] = (left - 1.0 if left >= 1.0 else left, now)
        while len(self._left) > self.callers:
            self._left.popitem(last=False)
        if left < 1.0:
            wait_s = ceil(1 / self.per_second)
            raise TooMany("too many calls in a short time", f"wait {wait_s} s and try again", wait_s)

    def _now_left(self, caller: str, now: float) -> float:
        left, at = self._left.get(caller, (self.burst, now))
        return min(self.burst, left + (now - at) * self.per_second)
