"""A network address whose requests fill the server keeps no other address out."""

from typing import Any

import pytest

from studio.core.errors import Busy
from studio.serve.adapters.speech import SpeechRequests
from studio.serve.settings import ServeSettings


class Spoken:
    """A request as the count sees it."""

    def __init__(self, address: str) -> None:
        self.address = address


def test_an_address_with_few_requests_enters_a_full_server() -> None:
    unused: Any = None
    requests: Any = SpeechRequests(unused, unused, ServeSettings(max_sockets=16))
    requests.running = {Spoken("flood") for _ in range(15)}
    requests._check_room("flood")
    requests._opening["flood"] += 1
    with pytest.raises(Busy):
        requests._check_room("flood")
    requests._check_room("other")
    requests.running |= {Spoken("other"), Spoken("other")}
    with pytest.raises(Busy):
        requests._check_room("other")
    requests.running |= {Spoken(f"{number}") for number in range(14)}
    with pytest.raises(Busy):
        requests._check_room("late")
