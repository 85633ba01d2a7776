"""What a server hosts, as values that can be sent to another process, and the app built from them."""

from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from studio.core.folders import DEFAULT_DATA, VOICES, speakers_folder
from studio.core.ports import Engine, Normaliser
from studio.serve.settings import ServeSettings

if TYPE_CHECKING:
    from fastapi import FastAPI

    from studio.mos.service import ListeningTests


@dataclass(frozen=True)
class Hosting:
    """Voices, limits and storage of one server.

    Attributes:
        settings: of the server; ``settings_file`` may declare systems.
        normaliser: makes the normaliser of a lexicon's file.
        lexicon: words with their pronunciation, or None.
        places, queue: concurrency slots and length of the queue; None for those of the settings.
        owner_code: a secret; ``/?owner=CODE`` signs a browser in as the owner.
    """

    settings: ServeSettings
    normaliser: Callable[[Path | None], Normaliser]
    settings_file: Path | None = None
    voices: Path = VOICES
    lexicon: Path | None = None
    device: str = "auto"
    vocoder: str = ""
    places: int = 4
    queue: int | None = None
    threads: int = 1
    database: str = ""
    data: Path = DEFAULT_DATA
    owner_code: str = ""


@contextmanager
def opened_app(
    hosting: Hosting, extend: Callable[["FastAPI", Engine], None] = lambda app, engine: None
) -> "Generator[tuple[FastAPI, ListeningTests]]":
    """The app with its pages; engine and listening tests are closed afterwards.

    ``extend`` adds routes before the pages, which take every other path.
    """
    from studio.core.addresses import is_loopback
    from studio.engine.admission import EngineLimits
    from studio.mos.service import open_listening_tests
    from studio.serve.app import create_app
    from studio.systems.combined import open_voices
    from studio.text.lexicon_book import FILE, BookNormaliser
    from studio.ui.app import mount

    settings = hosting.settings
    limits = EngineLimits(
        queue=settings.max_queue if hosting.queue is None else hosting.queue,
        queue_timeout_ms=settings.queue_timeout_ms,
        idle_ms=settings.idle_utterance_ms,
        idle_wanted_ms=settings.idle_wanted_ms,
        slow_run_ms=settings.slow_run_ms,
        stuck_run_ms=settings.stuck_run_ms,
    )
    normalise = hosting.normaliser(hosting.lexicon or (Path(settings.lexicon) if settings.lexicon else None))
    with (
        closing(
            open_voices(
                hosting.voices,
                BookNormaliser(hosting.data / FILE, normalise),
                hosting.device,
                slots=hosting.places,
                threads=hosting.threads,
                vocoder=hosting.vocoder,
                limits=limits,
                settings=hosting.settings_file,
                speakers=speakers_folder(hosting.data),
                manages_systems=True,
                warms_up=True,
                hides_failures=not is_loopback(settings.host),
            )
        ) as engine,
        closing(open_listening_tests(hosting.database, hosting.data)) as listening,
    ):
        app = create_app(engine, settings, listening)
        extend(app, engine)
        yield mount(app, engine, settings, listening, hosting.owner_code), listening
