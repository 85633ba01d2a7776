"""The app with rated listening tests as a process; prints the owner's token as ``studio app`` does."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mos.world import World

TESTS = Path(__file__).resolve().parents[1]
OWNER_CODE = "a-code-that-nobody-guesses"
TITLE = "A <i>test</i> `${alert(1)}` {{title}}"


def main() -> None:
    """Create the campaigns in a folder and serve them; the token is written to ``token.txt`` there."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--empty", action="store_true", help="no campaigns")
    parser.add_argument("--key", default="", help="of the studio")
    parser.add_argument("--root-path", default="", help="prefix that a proxy on loopback strips")
    parser.add_argument("--voice", default="", help="a shipped voice, which speaks in the place of the fake engine")
    args = parser.parse_args()
    sys.path.insert(0, str(TESTS))
    from dataclasses import replace

    from fakemanaged import ManagedFake
    from mos.rated import CHECKED, MOS, NASTY, PAIRS, a_world, campaign, rate

    from studio.serve.app import create_app
    from studio.serve.server import run
    from studio.serve.settings import ServeSettings
    from studio.ui.app import mount

    folder: Path = args.folder
    world = a_world(folder)
    token = world.listening.access.first_token
    assert token is not None, "the folder is new"
    if not args.empty:
        texts = replace(MOS.texts, title=TITLE)
        campaign(world, folder / "a", replace(CHECKED, texts=texts), "kestrel", ("trap", "gold"))
        campaign(world, folder / "b", replace(PAIRS, texts=replace(texts, title="Which one?")), "merlin")
        campaign(world, folder / "c", MOS, "untouched")
        for k in range(6):
            rate(world, f"PID-{k}", "kestrel", comment=NASTY, check=5 if k == 2 else 3)
            rate(world, f"PID-{k}", "merlin", screens=5 if k == 3 else 99)
        predict(world, "kestrel")
    (folder / "token.txt").write_text(token, encoding="utf-8")
    proxies = ("127.0.0.1",) if args.root_path else ()
    traces = folder / "traces"
    settings = ServeSettings(
        port=args.port, key=args.key, traces_folder=traces, root_path=args.root_path, proxies=proxies
    )
    os.environ["STUDIO_SYSTEMS"] = str(folder / "systems.toml")
    engine = ManagedFake()
    if args.voice:
        from studio.core.folders import VOICES
        from studio.systems.combined import open_voices
        from studio.text.normalise import best

        speakers = folder / "speakers"
        engine = open_voices(VOICES, best(), "cpu", [args.voice], speakers=speakers, manages_systems=True)
    app = create_app(engine, settings, listening=world.listening)
    if not args.empty:
        facts = {"links": world.listening.links("kestrel"), "untouched": world.listening.links("untouched")["rater"]}
        (folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
    run(mount(app, engine, settings, world.listening, OWNER_CODE), settings)


def predict(world: "World", name: str) -> None:
    """Predict a campaign's sounds with a fake predictor."""
    from fakepredictor import FakePredictor, by_pitch

    from studio.mos.analysis.clips import predict_clips, unpredicted

    predictor = FakePredictor(by_pitch)
    with world.store.read() as session:
        wanted = unpredicted(session, name, predictor.about["sha256"])
    predict_clips(world.store, world.listening.clips, wanted, predictor, lambda: None)


if __name__ == "__main__":
    main()
