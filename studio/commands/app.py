"""``studio app``: the server and its pages."""

import os
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from studio.bench.options import Device, Threads, Vocoder, Voices
from studio.commands.common import Data, Database, tell_token
from studio.commands.lexicon import LexiconFile, normaliser
from studio.core.folders import DEFAULT_DATA, DEMO, VOICES
from studio.core.garbage import paused_collections
from studio.core.terminal import print_line


@paused_collections()  # until the server runs
def app(
    host: Annotated[
        str, typer.Option(help="Address to bind; 0.0.0.0 serves other machines, with the key that is printed.")
    ] = "",
    port: Annotated[int | None, typer.Option(help="0 for any free port.")] = None,
    no_key: Annotated[bool, typer.Option("--open", help="Require no key, even if other machines can connect.")] = False,
    settings: Annotated[
        Path | None, typer.Option(help="TOML file with the tables `serve` and `systems.NAME`.")
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
        typer.Option(min=0, max=1000, help="Utterances that may wait for a slot; 16 by default, or the setting."),
    ] = None,
    threads: Threads = 1,
    demo: Annotated[
        bool, typer.Option("--demo/--no-demo", help="Add the demo listening test.", envvar="STUDIO_DEMO")
    ] = True,
    database: Database = "",
    data: Data = DEFAULT_DATA,
) -> None:
    """Serve the studio: type in a browser, and hear speech while you type."""
    import threading
    from dataclasses import replace
    from secrets import token_urlsafe

    from studio.commands.welcome import owner_link, welcome
    from studio.core.addresses import is_loopback
    from studio.engine.admission import EngineLimits
    from studio.mos.service import open_listening_tests
    from studio.mos.stimuli.demo import add_demo_quietly
    from studio.serve.app import create_app
    from studio.serve.server import bind_port, run
    from studio.serve.settings import load_settings
    from studio.systems.combined import open_voices
    from studio.ui.app import mount

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
    limits = EngineLimits(
        queue=chosen.max_queue if queue is None else queue,
        queue_timeout_ms=chosen.queue_timeout_ms,
        idle_ms=chosen.idle_utterance_ms,
        idle_wanted_ms=chosen.idle_wanted_ms,
        slow_run_ms=chosen.slow_run_ms,
        stuck_run_ms=chosen.stuck_run_ms,
    )
    bound = bind_port(chosen)
    access = welcome(replace(chosen, port=bound.getsockname()[1]), is_open=no_key)
    owner_code = token_urlsafe(16)
    chosen = access.settings

    def on_start() -> None:
        own = owner_link(access.links[0], owner_code)
        print_line(f"Streaming-TTS Studio: {'  '.join(access.links)}", err=True)
        print_line(f"Your own link, which signs this browser in as the owner: {own}", err=True)
        print_line(f"Listening tests, library and clips are stored in {data.resolve()} (--data)", err=True)
        if access.words:
            print_line(access.words, err=True, colour="yellow")

    with (
        closing(
            open_voices(
                voices,
                normaliser(lexicon or (Path(chosen.lexicon) if chosen.lexicon else None)),
                device,
                slots=places,
                threads=threads,
                vocoder=vocoder,
                limits=limits,
                settings=settings,
                manages_systems=True,
                hides_failures=not is_loopback(chosen.host),
            )
        ) as engine,
        closing(open_listening_tests(database, data)) as listening,
    ):
        tell_token(listening)
        mounted = mount(create_app(engine, chosen, listening), engine, chosen, listening, owner_code)
        if demo and DEMO.is_dir():  # in the background, without delaying the page
            threading.Thread(target=add_demo_quietly, args=(listening, DEMO), name="demo", daemon=True).start()
        run(mounted, chosen, bound, on_start, on_stopped=listening.close)
