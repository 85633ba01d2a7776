"""``studio app`` on the tone engine, which starts immediately; ``--plant`` adds a fault."""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def main() -> None:
    """Serve what ``studio app`` serves."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--database", required=True)
    parser.add_argument("--no-demo", action="store_true")
    parser.add_argument("--plant", default="", choices=["", "mistakes"])
    args = parser.parse_args()
    from fakes import FakeEngine
    from fakeutterance import FakeUtterance
    from tones import Script

    from studio.mos.service import open_listening_tests
    from studio.serve.app import create_app
    from studio.serve.server import run
    from studio.serve.settings import load_settings
    from studio.ui.app import mount

    engine, settings = FakeEngine(Script(speed=50.0)), replace(load_settings(None, os.environ), port=args.port)
    listening = open_listening_tests(args.database, args.data)
    if args.plant:
        for name in ("flush", "set_options", "played"):  # one alone is seldom reached
            setattr(FakeUtterance, name, lambda *_, **__: 1 / 0)
        engine.free = lambda utterance: FakeEngine.free(engine, utterance) if utterance.id % 20 else None  # type: ignore
    run(mount(create_app(engine, settings, listening=listening), engine, settings, listening), settings)


if __name__ == "__main__":
    main()
