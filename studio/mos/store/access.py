"""Authorization: owner's token, signed links, tokens of raters and annotators, signed clip URLs, rate limits.

All signatures are derived from one random key in the store; the owner's token is stored only as a hash.
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

from studio.core.errors import BadOption, StudioError
from studio.mos.store.database import Store
from studio.mos.store.tables import Secret

_VISITOR = "visitor"
_SECRETS = ("key", "owner_sha256")
WRONG_BURST, WRONG_PER_S = 10, 10 / 60  # forged links, tokens and clip URLs per network address


class Forbidden(StudioError):
    """A link, token or clip URL is not valid for this request."""

    code = "forbidden"


class TooMany(StudioError):
    """Rate limit exceeded; retry after ``retry_s`` seconds."""

    code = "too_many"

    def __init__(self, what: str, do: str = "", retry_s: int = 1) -> None:
        super().__init__(what, do)
        self.retry_s = retry_s


@dataclass(frozen=True)
class Visitor:
    """A visitor of a link who has not consented yet. Nothing is stored: these fields travel in a signed token."""

    campaign_id: int
    role: str
    identity: str
    panel: dict[str, str]  # identifiers from a recruiting panel; stored with ``device`` on consent
    device: dict[str, Any]


class Access:
    """Creates and checks signatures. ``first_token`` is the owner's token if it was created just now, else None."""

    def __init__(self, store: Store) -> None:
        with store.read() as session:  # read first: that takes no lock, and works if it is read-only
            secrets_of = {name: session.get(Secret, name) for name in _SECRETS}
        key, self.first_token = secrets_of["key"], None
        if store.is_read_only:
            key = key or Secret(name="key", value=secrets.token_hex(32))
        elif None in secrets_of.values():
            key, self.first_token = store.write_now(_prepare)
        assert key is not None
        self._key = bytes.fromhex(key.value)
        self._store = store
        self._wrong = RateLimit(burst=WRONG_BURST, per_second=WRONG_PER_S)

    def link_key(self, campaign_id: int, role: str) -> str:
        """Signature in a campaign's link; ``role`` is panel or preview."""
        return self._mac("link", campaign_id, role)

    def link_id(self, campaign_id: int) -> str:
        """Opaque campaign id for links; a campaign's name could bias raters."""
        return hmac.digest(self._key, _bytes(f"test|{campaign_id}"), "sha256").hex()[:16]

    def role_of_link(self, campaign_id: int, key: str) -> str:
        """The role that a link grants: panel or preview. Raises Forbidden."""
        for role in ("panel", "preview"):
            if _same(self.link_key(campaign_id, role), key):
                return role
        raise Forbidden("this link is not valid", "ask the people who run the test for a new one")

    def identity(self, campaign_id: int, role: str, who: str) -> str:
        """Keyed hash of a person per campaign, so that a person cannot be matched across campaigns."""
        return self._mac("identity", campaign_id, role, who)

    def rater_token(self, rater_id: int) -> str:
        """The token that a rater's browser sends with every call."""
        return f"{rater_id}.{self._mac('rater', rater_id)}"

    def rater_of(self, token: str) -> int:
        """The rater of a token. Raises Forbidden."""
        number, _, mac = token.partition(".")
        known = number.isascii() and number.isdigit() and len(number) < 12
        if known and _same(self._mac("rater", int(number)), mac):
            return int(number)
        raise Forbidden("this session is not known", "open the test's link again")

    def visitor_token(self, visitor: Visitor) -> str:
        """The token that a browser sends before consent; signed, not stored."""
        payload = urlsafe_b64encode(json.dumps(asdict(visitor), allow_nan=False).encode()).decode()
        return f"{_VISITOR}.{payload}.{self._mac(_VISITOR, payload)}"

    def visitor_of(self, token: str) -> Visitor | None:
        """The visitor of a token; None for a token of another kind. Raises Forbidden."""
        kind, _, rest = token.partition(".")
        if kind != _VISITOR:
            return None
        payload, _, mac = rest.partition(".")
        if not _same(self._mac(_VISITOR, payload), mac):
            raise Forbidden("this session is not known", "open the test's link again")
        return Visitor(**json.loads(urlsafe_b64decode(payload)))

    def annotator_token(self, assignment: str, number: int) -> str:
        """The token at the end of an annotator's link."""
        return f"{assignment}.{number}.{self._mac('annotate', assignment, number)}"

    def annotator_of(self, token: str) -> tuple[str, int]:
        """Assignment and annotator number of a token. Raises Forbidden."""
        assignment, _, rest = token.partition(".")
        number, _, mac = rest.partition(".")
        known = number.isascii() and number.isdigit() and len(number) < 4
        if known and _same(self._mac("annotate", assignment, int(number)), mac):
            return assignment, int(number)
        raise Forbidden("this link is not valid", "ask the people who gave it to you for a new one")

    def clip_key(self, rater_id: int, trial: str, slot: int) -> str:
        """Signature in a clip's URL, valid only for this rater, trial and slot."""
        return self._mac("clip", rater_id, trial, slot)

    def clip_seed(self, trial: str, slot: int) -> int:
        """Secret seed of a clip's blinding noise; the same on every fetch."""
        return int.from_bytes(hmac.digest(self._key, _bytes(f"noise|{trial}|{slot}"), "sha256")[:8])

    def script_of(self, campaign_id: int, text: str) -> str:
        """Keyed hash of a typed text; equal for equal words, ignoring case and spacing."""
        words = " ".join(text.casefold().split())
        return "typed-" + hmac.digest(self._key, _bytes(f"script|{campaign_id}|{words}"), "sha256").hex()[:16]

    def check_clip(self, rater_id: int, trial: str, slot: int, key: str) -> None:
        """Raises Forbidden unless the URL was issued to this rater."""
        if not _same(self.clip_key(rater_id, trial, slot), key):
            raise Forbidden("this sound is not yours to hear", "go on from the test's own page")

    def check_owner(self, token: str) -> None:
        """Raises Forbidden unless this is the owner's token. Read on every call, since a command may replace it."""
        with self._store.read() as session:
            row = session.get(Secret, "owner_sha256")
        assert row is not None, "created at first start"
        if not _same(row.value, _sha(token)):
            raise Forbidden("the owner's access key is wrong", "`studio campaign token` makes a new one")

    def owner_session(self) -> str:
        """The value of a signed-in browser's cookie. It stays valid until the owner's token is replaced."""
        with self._store.read() as session:
            row = session.get(Secret, "owner_sha256")
        assert row is not None, "created at first start"
        return self._mac("owner session", row.value)

    def is_owner_session(self, value: str) -> bool:
        """Whether this is the value of ``owner_session``; an empty value is rejected without reading the store."""
        return bool(value) and _same(self.owner_session(), value)

    @contextmanager
    def limit_forgeries(self, address: str) -> Generator[None]:
        """Count Forbidden errors per network address. Raises TooMany instead of Forbidden above the limit."""
        try:
            yield
        except Forbidden:
            self._wrong.take(address)
            raise

    def new_owner_token(self) -> str:
        """Replace the owner's token; returns the new one, which is stored only as a hash."""
        token = secrets.token_urlsafe(32)

        def replace(session: Session) -> None:
            row = session.get(Secret, "owner_sha256")
            assert row is not None, "created at first start"
            row.value = _sha(token)
            session.add(row)

        self._store.write_now(replace)
        return token

    def _mac(self, *parts: object) -> str:
        message = _bytes("|".join(map(str, parts)))
        return urlsafe_b64encode(hmac.digest(self._key, message, "sha256")[:18]).decode()


def _prepare(session: Session) -> tuple[Secret, str | None]:
    key = session.get(Secret, "key")
    token = None
    if key is None:
        key = Secret(name="key", value=secrets.token_hex(32))
        session.add(key)
    if session.get(Secret, "owner_sha256") is None:
        token = secrets.token_urlsafe(32)
        session.add(Secret(name="owner_sha256", value=_sha(token)))
    session.flush()
    return key, token


def _sha(token: str) -> str:
    return hashlib.sha256(_bytes(token)).hexdigest()


def _same(ours: str, theirs: str) -> bool:
    return hmac.compare_digest(_bytes(ours), _bytes(theirs))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # clients may send lone surrogates


@dataclass
class RateLimit:
    """Token bucket per caller, with LRU eviction of callers.

    Raters are limited by token, never by network address (a class may share one); addresses only for bad signatures.
    """

    burst: float
    per_second: float
    clock: Callable[[], float] = time.monotonic
    callers: int = 20_000
    _left: "OrderedDict[str, tuple[float, float]]" = field(default_factory=OrderedDict[str, tuple[float, float]])

    def is_over(self, caller: str) -> bool:
        """Whether the next call would exceed the limit; counts nothing."""
        return self._now_left(caller, self.clock()) < 1.0

    def take(self, caller: str) -> None:
        """Count a call; a refused call is not counted. Raises TooMany."""
        now = self.clock()
        left = self._now_left(caller, now)
        self._put(caller, left - 1.0 if left >= 1.0 else left, now)
        if left < 1.0:
            wait_s = ceil(1 / self.per_second)
            raise TooMany("too many calls in a short time", f"wait {wait_s} s and try again", wait_s)

    def reserve(self, caller: str, max_wait_s: float) -> float:
        """Count a call that waits for its turn; returns the wait in seconds, 0 within the burst.

        Raises TooMany: it would wait for longer than ``max_wait_s``; a refused call is not counted.
        """
        now = self.clock()
        left = self._now_left(caller, now) - 1.0
        wait_s = max(0.0, -left / self.per_second)
        if wait_s > max_wait_s:
            raise TooMany("too many calls in a short time", "try again in a minute", ceil(max_wait_s))
        self._put(caller, left, now)
        return wait_s

    def _put(self, caller: str, left: float, now: float) -> None:
        self._left.pop(caller, None)
        self._left[caller] = (left, now)
        while len(self._left) > self.callers:
            self._left.popitem(last=False)

    def _now_left(self, caller: str, now: float) -> float:
        left, at = self._left.get(caller, (self.burst, now))
        return min(self.burst, left + (now - at) * self.per_second)


_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32: no I, L, O, U
_ALIKE = str.maketrans("ILO", "110")
_RANDOM, _CHECKS = 10, 2  # 50 random bits and 10 check bits


def new_resume_code() -> str:
    """A random code for resuming a session in another browser: ``7K3Q-...``."""
    return _grouped_code("".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM)))


def parse_resume_code(text: str) -> str:
    """Normalise a typed resume code. Raises BadOption if its check digits do not match."""
    letters = "".join(text.upper().split()).replace("-", "").translate(_ALIKE)
    code = _grouped_code(letters[:_RANDOM])
    if len(letters) != _RANDOM + _CHECKS or code.replace("-", "") != letters:
        raise BadOption("this code is not right", "it has three groups of four; look at it again, letter by letter")
    return code


def _grouped_code(random_letters: str) -> str:
    digest = int.from_bytes(hashlib.sha256(random_letters.encode()).digest()[:2], "big")
    letters = random_letters + "".join(_ALPHABET[digest >> 5 * position & 31] for position in range(_CHECKS))
    return "-".join(letters[at : at + 4] for at in range(0, len(letters), 4))
