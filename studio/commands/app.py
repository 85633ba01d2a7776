"""``studio app``: the server and its pages."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from studio.bench.options import Device, Threads, Vocoder, Voices
from studio.commands.common import Data, Database, opened, tell_token
from studio.commands.lexicon import LexiconFile, normaliser
from studio.core.folders import DEFAULT_DATA, DEMO, VOICES, real_path
from studio.core.garbage import paused_collections
from studio.core.plurals import counted
from studio.core.ports import MAX_QUEUE
from studio.core.terminal import print_line

if TYPE_CHECKING:
    from studio.mos.service import ListeningTests
    from studio.serve.settings import ServeSettings


@paused_collections()  # until the server runs
def app(
    host: Annotated[
        str, typer.Option(help="Address to bind; 0.0.0.0 serves other machines, with the key that is printed.")
    ] = "",
    port: Annotated[int | None, typer.Option(help="0 for any free port.")] = None,
    no_key: Annotated[bool, typer.Option("--open", help="Require no key, even if other machines can connect.")] = False,
    settings: Annotated[
        Path | None, typer.Option(help="TOML file with \\[serve], and \\[systems.NAME] for systems.")
    ] = None,
    llm: Annotated[
        str, typer.Option(help="OpenAI-compatible server of a language model to talk with: http://127.0.0.1:11434/v1.")
    ] = "",
    model: Annotated[str, typer.Option(help="Name of the language model there.")] = "",
    llm_key_env: Annotated[str, typer.Option(help="Environment variable with that server's key.")] = "",
    lexicon: LexiconFile = None,
    voices: Voices = VOICES,
    device: Device = "auto",
    vocoder: Vocoder = "",
    places: Annotated[int, typer.Option(min=1, max=64, help="Concurrency slots: utterances that speak at once.")] = 4,
    queue: Annotated[
        int | None,
        typer.Option(min=0, max=MAX_QUEUE, help="Utterances that may wait for a slot; 16 by default, or the setting."),
    ] = None,
    threads: Threads = 1,
    demo: Annotated[
        bool,
        typer.Option(
            "--demo/--no-demo", help="Add the demo listening test; on loopback, its arena, too.", envvar="STUDIO_DEMO"
        ),
    ] = True,
    replicas: Annotated[
        int,
        typer.Option(
            min=0, max=64, help="Engine processes behind one address, on Ray; each has --places. 0: none but this one."
        ),
    ] = 0,
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Serve the studio: type in a browser, and hear speech while you type."""
    from dataclasses import replace
    from secrets import token_urlsafe

    from studio.commands.welcome import owner_link, welcome
    from studio.deploy.hosting import Hosting, opened_app
    from studio.serve.server import bind_port, run
    from studio.serve.settings import load_settings

    if replicas:
        from studio.deploy.local import check_ray, run_replicas

        check_ray()  # raises NeedsPackage before anything is loaded

    chosen = load_settings(settings, os.environ)
    chosen = replace(
        chosen,
        host=host or chosen.host,
        port=chosen.port if port is None else port,
        llm_url=llm or chosen.llm_url,
        llm_model=model or chosen.llm_model,
        llm_key_env=llm_key_env or chosen.llm_key_env,
    )
    chosen.chat_endpoint()  # raises BadOption before anything is loaded
    bound = bind_port(chosen)
    access = welcome(replace(chosen, port=bound.getsockname()[1]), is_open=no_key)
    owner_code = token_urlsafe(16)
    chosen = access.settings

    def on_start() -> None:
        own = owner_link(access.links[0], owner_code)
        print_line(f"Streaming-TTS Studio: {'  '.join(access.links)}", err=True)
        print_line(f"Your own link, which signs this browser in as the owner: {own}", err=True)
        print_line(f"Listening tests, library and clips are stored in {real_path(data)} (--data)", err=True)
        if access.words:
            print_line(access.words, err=True, colour="yellow")

    hosting = Hosting(
        chosen,
        normaliser,
        settings_file=settings,
        voices=voices,
        lexicon=lexicon,
        device=device,
        vocoder=vocoder,
        places=places,
        queue=queue,
        threads=threads,
        database=database,
        data=data,
        owner_code=owner_code,
    )
    if replicas:
        with opened(database, data) as listening:  # creates the database, before several processes open it
            _add_demo(listening, demo, chosen, wait=True)
        print_line(f"Starting {counted(replicas, 'replica')}; each loads the voices, which may take a minute", err=True)
        run_replicas(hosting, replicas, bound, on_start)
        return
    with opened_app(hosting) as (mounted, listening):
        tell_token(listening)
        _add_demo(listening, demo, chosen)
        run(mounted, chosen, bound, on_start, on_stopped=listening.close)


def _add_demo(listening: "ListeningTests", is_wanted: bool, settings: "ServeSettings", *, wait: bool = False) -> None:
    """Add the demo listening test in the background, without delaying the page.

    An arena stores what visitors type, so one is opened only if they are users of this machine.
    """
    import threading

    from studio.mos.stimuli.demo import add_demo_quietly

    if is_wanted and DEMO.is_dir():
        thread = threading.Thread(
            target=add_demo_quietly,
            args=(listening, DEMO),
            kwargs={"with_arena": settings.is_local},
            name="demo",
            daemon=True,
        )
        thread.start()
        if wait:
            thread.join()
