"""The app on the real engine and a tiny voice with random weights, as a process."""

import argparse
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def main() -> None:
    """Serve voices ``tiny:one`` and ``tiny:two`` of a family."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--family", default="speakstream")
    args = parser.parse_args()
    sys.path.insert(0, str(TESTS))
    from mos.world import World
    from tinyvoice import write_tiny_voice

    from studio.engine.engine import open_engine
    from studio.mos.store.database import Store
    from studio.serve.app import create_app
    from studio.serve.server import run
    from studio.serve.settings import ServeSettings
    from studio.text.normalise import best
    from studio.ui.app import mount

    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_tiny_voice(folder / "voices", family=args.family)
        world = World(Store(f"sqlite:///{folder / 'studio.sqlite'}"), folder / "clips")
        settings = ServeSettings(port=args.port, traces_folder=folder / "traces")
        engine = open_engine(folder / "voices", best(), device="cpu")
        run(mount(create_app(engine, settings, listening=world.listening), engine, settings, world.listening), settings)


if __name__ == "__main__":
    main()
