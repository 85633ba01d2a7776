"""The fuzzed server: address, routes, and valid tokens."""

import http.client
import json
import urllib.parse
from dataclasses import dataclass, field
from typing import Any

from studio.bench.mos.site import CAMPAIGN, BenchSite

HELD_S = 10.0  # give up on endless event streams
MAX_ANSWER_BYTES = 1 << 20
_STEPS = ({"stage": "consent", "data": {"agreed": True, "version": 1}}, {"stage": "instructions"}, {"stage": "level"})


@dataclass(frozen=True)
class Routes:
    """Every route of the app.

    Attributes:
        schema: OpenAPI of our routes.
        mounted: method and path of Gradio's routes.
    """

    schema: dict[str, Any]
    mounted: list[tuple[str, str]]


@dataclass(frozen=True)
class Target:
    """A server and its tokens.

    Attributes:
        raters: tokens of raters at different stages of the campaign.
    """

    port: int
    key: str
    owner: str
    routes: Routes
    raters: list[str] = field(default_factory=list[str])

    @property
    def tokens(self) -> list[str]:
        """No token, a wrong one, the owner's, raters'."""
        return ["", "1.wrong", "\xff", self.owner, *self.raters]


class Line:
    """A keep-alive connection that reopens when the server closes it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, method: str, path: str, body: Any = None, token: str = "", **headers: str) -> tuple[int, str]:
        """Status and text of an answer; status 0 if the server closed the connection."""
        data = None if body is None else json.dumps(body).encode()
        given = {"Content-Type": "application/json"} if data is not None else {}
        if token:
            given["Authorization"] = f"Bearer {token}"
        for again in (True, False):
            connection = self._connection or http.client.HTTPConnection("127.0.0.1", self._port, timeout=HELD_S)
            self._connection = connection
            try:
                connection.request(method, path, data, given | headers)
                answer = connection.getresponse()
                if answer.headers.get_content_type() == "text/event-stream":
                    self.close()
                    return answer.status, ""
                return answer.status, answer.read(MAX_ANSWER_BYTES).decode("utf-8", "replace")
            except TimeoutError:
                self.close()
                return -1, f"no answer within {HELD_S:g} s"
            except (OSError, http.client.HTTPException):
                self.close()
                if not again:
                    return 0, "closed"
        raise AssertionError("one of the two returns")

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def enter_raters(port: int, site: BenchSite, count: int) -> list[str]:
    """Tokens of raters who have just joined, who have consented, and who are at their first trial."""
    line, tokens = Line(port), list[str]()
    for n in range(count):
        panel = {"PROLIFIC_PID": f"fuzz {n}"}
        _, said = line.ask("POST", "/mos/join", {"campaign": CAMPAIGN, "key": site.key, "panel": panel})
        token = json.loads(said)["token"]
        for step in _STEPS[: n % 4]:
            token = json.loads(line.ask("POST", "/mos/stage", step, token)[1]).get("token", token)
        tokens.append(token)
    line.close()
    return tokens


def filled(path: str, values: list[str]) -> str:
    """A route's path with quoted values for its parameters."""
    out, left = path, iter(values * 8)
    while "{" in out:
        head, _, rest = out.partition("{")
        out = head + urllib.parse.quote(next(left), safe="/%:.~") + rest.partition("}")[2]
    return out
