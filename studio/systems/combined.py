"""The studio's own voices and third-party systems as one engine."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from studio.core.cards import Card, parse_voice
from studio.core.errors import BadOption
from studio.core.folders import DEFAULT_DATA, expand_folder, speakers_folder
from studio.core.ports import Engine, EngineLoad, Normaliser, SpeakRequest, Utterance
from studio.core.pulled import find_cards
from studio.core.speakers import SpeakerStore
from studio.engine.admission import EngineLimits

SYSTEMS_VARIABLE = "STUDIO_SYSTEMS"


def systems_file() -> Path:
    """The file that declares the systems: STUDIO_SYSTEMS, or systems.toml in the default data folder."""
    path = Path(os.environ.get(SYSTEMS_VARIABLE) or DEFAULT_DATA / "systems.toml")
    return expand_folder(path, f"set {SYSTEMS_VARIABLE} to a file")


def declared_systems(settings: Path | None = None) -> dict[str, Any]:
    """The systems of ``systems_file``, then those of a settings file, by name. Raises BadFile, BadOption."""
    systems: dict[str, Any] = {}
    files = [settings] if settings is not None else []
    with suppress(BadOption):  # no home folder: no systems
        files.insert(0, systems_file())
    for file in files:
        if file.is_file():
            from studio.systems.settings import read_systems  # pydantic: a bare machine has no systems

            systems |= read_systems(file)
    return systems


def all_cards(voices: Path, *, has_added: bool = True) -> dict[str, Card]:
    """Cards of the voices in a folder and of the declared systems, by name. Raises BadVoice, BadOption, BadFile.

    ``has_added``: with the names of added speakers.
    """
    added = SpeakerStore(speakers_folder() if has_added else None)
    cards = {name: added.extended(card) for name, (card, _) in find_cards(voices).items()}
    systems = declared_systems()
    _check_names(systems, cards)
    if systems:
        from studio.systems.adapters.registry import open_adapter
        from studio.systems.engine import system_card

        cards |= {name: system_card(name, system, open_adapter(system)) for name, system in systems.items()}
    return cards


def open_voices(
    voices: Path,
    normalise: Normaliser,
    device: str = "auto",
    voice_names: Sequence[str] | None = None,
    *,
    settings: Path | None = None,
    limits: EngineLimits | None = None,
    slots: int | None = None,
    speakers: Path | None = None,
    hides_failures: bool = False,
    manages_systems: bool = False,
    **how: Any,
) -> Any:
    """An engine over the voices of a folder and the declared systems; see ``open_engine`` for further arguments.

    Args:
        voice_names: None for all; if it is a single system, no voice is opened.
        settings: a file that may declare more systems.
        speakers: folder of added speakers; that of the default data folder if None.
        manages_systems: systems can be added and removed (``studio.core.systems.SupportsSystems``).
        hides_failures: write the reasons for systems' failures only to the log.
    """
    systems = declared_systems(settings)
    wanted = systems if voice_names is None else {name: systems[name] for name in voice_names if name in systems}
    own = None if voice_names is None else [name for name in voice_names if name not in systems]
    remote: dict[str, Engine] = {}
    try:
        if wanted:
            from studio.systems.engine import RemoteEngine

            for name, system in wanted.items():
                remote[name] = RemoteEngine(
                    name, system, limits, slots if voice_names else None, hides_failures=hides_failures
                )
        if wanted and own == [] and len(remote) == 1:
            return next(iter(remote.values()))
        from studio.engine.engine import open_engine

        options = {"slots": slots, "limits": limits}
        more = how | {name: value for name, value in options.items() if value is not None}
        local = open_engine(voices, normalise, device, own or None, speakers=speakers or speakers_folder(), **more)
        if not remote and not manages_systems:
            return local
        try:
            _check_names(wanted, {card.name: card for card in local.cards()})
        except BadOption:
            local.close()
            raise
        if manages_systems:
            from studio.systems.managed import ManagedEngine

            return ManagedEngine(local, remote, limits, hides_failures=hides_failures)
        return CombinedEngine(local, remote)
    except BaseException:
        for one in remote.values():
            one.close()
        raise


def _check_names(systems: Mapping[str, Any], cards: Mapping[str, Card]) -> None:
    if both := sorted(set(systems) & set(cards)):
        raise BadOption(f"a voice and a system are both named {both[0]!r}", "rename the system")


class CombinedEngine:
    """An engine for the studio's voices and third-party systems, chosen by name; see ``core.ports.Engine``.

    Slots, load and recomputation are those of the studio's own engine: each system has separate slots and a queue.
    """

    def __init__(self, local: Any, systems: Mapping[str, Engine]) -> None:
        self._local, self._systems = local, systems

    def cards(self) -> Sequence[Card]:
        """Cards of the voices, then of the systems."""
        return [*self._local.cards(), *(card for one in self._systems.values() for card in one.cards())]

    def open(self, request: SpeakRequest) -> Utterance:
        """See ``Engine.open``."""
        name = parse_voice(request.voice, {card.name: card for card in self.cards()})[0].name
        return self._systems.get(name, self._local).open(request)

    def is_loaded(self, voice: str) -> bool:
        """Whether the voice is in memory; systems always are."""
        return self._systems.get(voice, self._local).is_loaded(voice)

    def free_slots(self) -> int:
        """Free slots of the studio's own engine."""
        return self._local.free_slots()

    def drain(self) -> None:
        """See ``Engine.drain``."""
        for one in (self._local, *self._systems.values()):
            one.drain()

    def close(self) -> None:
        """Close all engines."""
        for one in (*self._systems.values(), self._local):
            one.close()

    def stuck(self) -> str:
        """See ``Engine.stuck``: of the studio's own engine; a hung system affects no other voice."""
        return self._local.stuck()

    def load(self) -> EngineLoad:
        """The load of the studio's own engine."""
        return self._local.load()

    def recomputer(self) -> Any:
        """See ``studio.core.traces.teacher_forcing.SupportsRecomputer``."""
        return self._local.recomputer()
