"""Signed keys open only their own target; rate limits refill as specified."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studio.mos.store.access import Access, Forbidden, RateLimit, TooMany
from studio.mos.store.database import Store
from studio.mos.store.tables import Secret

_CHECKS: dict[str, Callable[[Access, str], object]] = {
    "link": lambda access, text: access.role_of_link(1, text),
    "rater": lambda access, text: access.rater_of(text),
    "clip": lambda access, text: access.check_clip(1, "t", 0, text),
    "owner": lambda access, text: access.check_owner(text),
}


def test_keys_survive_a_restart_and_the_owner_token_is_shown_once(store: Store, url: str) -> None:
    """The owner's token is not in the database in clear."""
    first = Access(store)
    again = Access(Store(url))
    assert first.first_token is not None and again.first_token is None
    assert again.link_key(1, "panel") == first.link_key(1, "panel")
    again.check_owner(first.first_token)
    with store.read() as session:
        kept = {row.value for row in session.query(Secret)}
    assert first.first_token not in kept and len(kept) == 2


def test_new_owner_token_replaces_the_old_one_immediately(store: Store, url: str) -> None:
    """Also in a running server, when a command creates it."""
    server = Access(store)
    command = Access(Store(url))
    new = command.new_owner_token()
    server.check_owner(new)
    with pytest.raises(Forbidden):
        server.check_owner(server.first_token or "")


def test_key_opens_only_its_own_target(store: Store) -> None:
    """Another campaign, role, rater, screen or slot has another key."""
    access = Access(store)
    assert access.role_of_link(1, access.link_key(1, "panel")) == "panel"
    assert access.role_of_link(1, access.link_key(1, "preview")) == "preview"
    assert access.rater_of(access.rater_token(7)) == 7
    access.check_clip(7, "abc", 1, access.clip_key(7, "abc", 1))
    for wrong in (
        lambda: access.role_of_link(2, access.link_key(1, "panel")),
        lambda: access.rater_of(access.rater_token(7).replace("7.", "8.", 1)),
        lambda: access.check_clip(8, "abc", 1, access.clip_key(7, "abc", 1)),
        lambda: access.check_clip(7, "abd", 1, access.clip_key(7, "abc", 1)),
        lambda: access.check_clip(7, "abc", 0, access.clip_key(7, "abc", 1)),
        lambda: access.check_owner(access.rater_token(7)),
    ):
        with pytest.raises(Forbidden):
            wrong()
    assert access.identity(1, "panel", "p") != access.identity(2, "panel", "p")
    assert access.identity(1, "panel", "p") != access.identity(1, "preview", "p")


def test_keys_differ_between_studios(store: Store, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = Store(f"sqlite:///{tmp_path_factory.mktemp('other') / 'x.sqlite'}")
    assert Access(other).rater_token(1) != Access(store).rater_token(1)
    other.close()


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Access:
    """Keys on a store shared by the property tests."""
    return Access(Store(f"sqlite:///{tmp_path_factory.mktemp('access') / 'x.sqlite'}"))


_odd = ["é", "\ud800", "\0", "", ".", "1.", "²." + "a" * 24]
_anything = st.text(st.characters(), max_size=40) | st.sampled_from(_odd)


@settings(max_examples=60, deadline=None)
@given(check=st.sampled_from(sorted(_CHECKS)), text=_anything)
def test_arbitrary_keys_are_refused(access: Access, check: str, text: str) -> None:
    """Never a Python error: not for accents, lone surrogates or non-ASCII digits."""
    with pytest.raises(Forbidden):
        _CHECKS[check](access, text)


@settings(max_examples=30, deadline=None)
@given(_anything)
def test_anonymous_identity(access: Access, who: str) -> None:
    """It holds nothing about the person."""
    assert who not in access.identity(1, "panel", who) or len(who) < 3


def test_burst_then_a_fixed_rate() -> None:
    """Each caller has a burst; a refused call costs nothing, so a flooding caller still gets the rate."""
    now = [0.0]
    limit = RateLimit(burst=5, per_second=10, clock=lambda: now[0])

    def let_in(seconds: float, calls_per_second: int) -> int:
        through = 0
        for _ in range(round(seconds * calls_per_second)):
            now[0] += 1 / calls_per_second
            try:
                limit.take("a")
                through += 1
            except TooMany:
                pass
        return through

    for _ in range(5):
        limit.take("a")
    with pytest.raises(TooMany, match="wait 1 s"):
        limit.take("a")
    limit.take("b")
    for rate in (11, 40, 1000):
        assert 19 <= let_in(2.0, rate) <= 21
    now[0] += 60.0
    for _ in range(5):
        limit.take("a")
    with pytest.raises(TooMany):
        limit.take("a")


def test_old_callers_are_dropped() -> None:
    """A caller with many addresses does not fill memory."""
    limit = RateLimit(burst=1, per_second=1, clock=lambda: 0.0, callers=10)
    for n in range(100):
        limit.take(str(n))
    assert len(limit._left) == 10
    with pytest.raises(TooMany):
        limit.take("99")
