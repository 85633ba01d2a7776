"""The app as ``studio app`` makes it at a first start, on the fake engine: the demo is built in the background."""

import argparse
import sys
import threading
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def main() -> None:
    """Serve a new, empty studio; the owner's token is written to ``token.txt`` of the folder."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args()
    sys.path.insert(0, str(TESTS))
    from fakes import FakeEngine

    from studio.mos.service import open_listening_tests
    from studio.mos.stimuli.demo import add_demo_quietly
    from studio.serve.app import create_app
    from studio.serve.server import run
    from studio.serve.settings import ServeSettings
    from studio.ui.app import mount

    folder: Path = args.folder
    listening = open_listening_tests("", folder)
    token = listening.access.first_token
    assert token is not None, "the folder is new"
    (folder / "token.txt").write_text(token, encoding="utf-8")
    settings = ServeSettings(port=args.port, traces_folder=folder / "traces")
    engine = FakeEngine()
    mounted = mount(create_app(engine, settings, listening=listening), engine, settings, listening)
    demo = TESTS.parent / "assets" / "demo"
    threading.Thread(target=add_demo_quietly, args=(listening, demo), daemon=True).start()
    run(mounted, settings)


if __name__ == "__main__":
    main()
