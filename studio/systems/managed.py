"""An engine whose systems with an address can be added, tested and removed while it runs."""

import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any, get_args
from urllib.parse import urlsplit

from studio.core.errors import BadOption, BadText, StudioError
from studio.core.events import Audio
from studio.core.ports import Engine, SpeakRequest
from studio.core.speaking import at_once, speak
from studio.core.systems import SystemState, SystemTest
from studio.core.time import MonotonicClock
from studio.engine.admission import EngineLimits
from studio.systems.combined import CombinedEngine, systems_file
from studio.systems.engine import RemoteEngine
from studio.systems.settings import System, change_systems, check_system, read_systems
from studio.systems.sound import SystemFailed

TEST_TEXT = "Good morning. This is a test, spoken by another system."
_KEY_VARIABLE = re.compile(r"(?!STUDIO_)[A-Z][A-Z0-9_]*_API_KEY")  # the page must not name any other secret


class ManagedEngine(CombinedEngine):
    """``CombinedEngine`` with ``studio.core.systems.SupportsSystems``; added systems are declared in ``systems_file``.

    Args:
        limits, hides_failures: as of ``RemoteEngine``.
    """

    def __init__(
        self,
        local: Any,
        systems: Mapping[str, Engine],
        limits: EngineLimits | None = None,
        *,
        hides_failures: bool = False,
    ) -> None:
        super().__init__(local, systems)
        self._limits, self._hides_failures = limits, hides_failures
        self._changing = threading.Lock()

    def systems(self) -> Sequence[SystemState]:
        """See ``SupportsSystems``."""
        removable = read_systems(systems_file())
        return [_state(name, one, is_removable=name in removable) for name, one in self._remote().items()]

    def system_kinds(self) -> Sequence[str]:
        """See ``SupportsSystems``."""
        classes = get_args(get_args(System)[0])
        return [one.model_fields["kind"].default for one in classes if "url" in one.model_fields]

    def add_system(self, name: str, values: Mapping[str, Any]) -> None:
        """See ``SupportsSystems``."""
        if values.get("kind") not in self.system_kinds():
            allowed = f"it is one of {', '.join(self.system_kinds())}; programs: studio systems add"
            raise BadOption(f"a system of the kind {values.get('kind')!r:.60} cannot be added here", allowed)
        variable = values.get("key_env", "")
        if variable and _KEY_VARIABLE.fullmatch(str(variable)) is None:
            raise BadOption("the variable of the key is not allowed", "its name ends in _API_KEY")
        with self._changing:
            system = check_system(name, dict(values))
            if name in {card.name for card in self.cards()}:
                raise BadOption(f"there is a voice or a system {name!r} already", "give it another name")
            engine = RemoteEngine(name, system, self._limits, hides_failures=self._hides_failures)

            def declare(declared: dict[str, Any]) -> None:
                if name in declared:
                    raise BadOption(
                        f"a system {name!r} is declared already", "restart the studio, or give another name"
                    )
                declared[name] = system

            try:
                change_systems(systems_file(), declare)
            except BaseException:
                engine.close()
                raise
            self._systems = {**self._systems, name: engine}

    def remove_system(self, name: str) -> None:
        """See ``SupportsSystems``."""
        with self._changing:
            if name not in self._systems or name not in read_systems(systems_file()):
                raise BadOption(f"the system {name!r:.80} cannot be removed here", "see where it is declared")
            change_systems(systems_file(), lambda declared: declared.pop(name, None))
            systems = dict(self._systems)
            engine = systems.pop(name)
            self._systems = systems
        engine.close()

    def test_system(self, name: str) -> SystemTest:
        """See ``SupportsSystems``."""
        engine = self._remote().get(name)
        if engine is None:
            raise BadOption(f"there is no system {name!r:.80}", "the list has those there are")
        try:
            return speak_test(engine, name)
        except StudioError as error:
            if type(error) is not StudioError or engine.last_failure is None:  # the utterance never began
                raise
            raise SystemFailed(engine.last_failure[0]) from error  # the owner sees it even if visitors do not

    def _remote(self) -> dict[str, RemoteEngine]:
        return {name: one for name, one in self._systems.items() if isinstance(one, RemoteEngine)}


def speak_test(engine: Engine, name: str, text: str = TEST_TEXT) -> SystemTest:
    """Speak a text by a system. Raises StudioError with the reason if it does not speak."""
    trace = speak(engine, SpeakRequest(name), at_once(text), MonotonicClock()).unwrap()
    first_ms = next((one.t_ms for one in trace.events if isinstance(one, Audio)), None)
    if first_ms is None:
        raise BadText("the text has no words", "give a text with letters")
    sources = sorted({word.source for word in trace.words() if word.source})
    return SystemTest(first_ms, len(trace.pcm) / trace.rate_hz, tuple(sources))


def _state(name: str, engine: RemoteEngine, *, is_removable: bool) -> SystemState:
    load, (card,) = engine.load(), engine.cards()
    settings: Any = engine.settings
    url = urlsplit(getattr(settings, "url", ""))
    failure = engine.last_failure
    return SystemState(
        name=name,
        title=card.title,
        kind=settings.kind,
        address=f"{url.scheme}://{url.netloc}{url.path}" if url.netloc else "",
        notes=card.notes,
        is_removable=is_removable,
        speaking=load.speaking,
        slots=load.slots,
        opened=load.opened,
        failed=load.failed,
        last_failure=failure[0] if failure else "",
        failed_s_ago=engine.seconds_since(failure[1]) if failure else None,
    )
