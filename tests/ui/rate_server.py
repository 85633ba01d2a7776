"""The app with listening tests of short tones, as a process; systems' names must never reach a browser."""

import argparse
import json
import sys
import wave
from dataclasses import replace
from pathlib import Path

import numpy as np

from studio.mos.campaign.config import Arena, CampaignConfig, Completion, Gates, Question, Texts, quality_labels
from studio.mos.campaign.gates import ScreeningQuestion
from studio.mos.service import ListeningTests
from studio.mos.sessions import campaigns
from studio.mos.stimuli import building
from studio.mos.stimuli.manifest_files import read_manifest
from studio.mos.store.clips import ClipFolder
from studio.mos.store.database import Store

SYSTEMS = ("velvet-otter", "copper-heron", "quiet-badger")
# their names in the live test, where they are voices
VOICES = {"velvet-otter": {"voice": "tone", "speaker": "low"}, "copper-heron": {"voice": "tone", "speaker": "high"}}
ITEMS = ("first", "second", "third", "fourth")
RATE_HZ = 24_000
CLIP_S = 0.6


def clip_s(system: str) -> float:
    """Length of a system's clips; distinct per system."""
    return CLIP_S + 0.02 * SYSTEMS.index(system)


def write_clips(folder: Path) -> None:
    """Tones: <system>/<item>.wav and the texts beside them."""
    for role, items in (("", ITEMS), ("training", ("practice",))):
        for k, system in enumerate(SYSTEMS):
            for n, item in enumerate(items):
                path = folder / role / system / f"{item}.wav"
                path.parent.mkdir(parents=True, exist_ok=True)
                time_s = np.arange(round(clip_s(system) * RATE_HZ)) / RATE_HZ
                pcm = 6000 * np.sin(2 * np.pi * (220 + 70 * k + 20 * n) * time_s)
                with wave.open(str(path), "wb") as file:
                    file.setparams((1, 2, RATE_HZ, 0, "NONE", ""))
                    file.writeframes(pcm.astype("<i2").tobytes())
    lines = [f"{item}|Text of <b>{item}</b> & more" for item in (*ITEMS, "practice")]
    (folder / "texts.txt").write_text("\n".join(lines), encoding="utf-8")


def build(listening: ListeningTests, clips: Path, back: str) -> dict[str, dict[str, str]]:
    """Create and open the campaigns; returns their link keys by role. ``back`` is the URL of 'back'."""
    texts = Texts(
        title="A <i>test</i>",
        consent="You agree to <img src=x onerror=document.body.dataset.hacked=1> nothing.",
        instructions="Listen.\n\nThen say <script>document.body.dataset.hacked=1</script> how it was.",
        thanks="Thanks <b>a lot</b>.",
    )
    natural = Question("naturalness", "How natural does it sound?", 1, 5, quality_labels("en"))
    coherence = Question("coherence", "How <b>coherent</b> is it?", 1, 5, quality_labels("en"))
    bare = Gates(level=False)
    base = CampaignConfig("acr", [natural], texts=texts, gates=bare, trials_per_sitting=3, raters_per_stimulus=500)
    screen = ScreeningQuestion("native", "Your <b>first</b> language?", ["English", "Another"], ["English"])
    gates = Gates(headphones="woods", level=True, screening=[screen], training=1)
    pair = replace(base, questions=[], prompt="Which one is better?", choices=["a", "b", "tie", "both_bad"])
    page = Question("quality", "How good is each?", 1, 100, {"1": "Worst", "100": "Best"})
    second, worse = (
        Question("quality", "", -3, 3),
        Question("degradation", "", 1, 5),
    )  # the page has translations for these
    configs = {
        "whole": replace(
            base, questions=[natural, coherence], break_after=2, gates=gates, completion=Completion(code="C0DE-42")
        ),
        "mos": base,
        "ab": replace(pair, kind="ab"),
        "choices": replace(pair, kind="ab", trials_per_sitting=1, gates=replace(gates, training=0)),
        "later": replace(pair, kind="ab", trials_per_sitting=1),
        "scores": replace(base, trials_per_sitting=1, then="later", completion=Completion(code="B0TH-42")),
        "similarity": replace(pair, kind="similarity", choices=["a", "b"], prompt=""),
        "scale": replace(base, kind="scale", questions=[page], trials_per_sitting=2),
        "ccr": replace(base, kind="ccr", questions=[second], text_after=True),
        "dcr": replace(base, kind="dcr", questions=[worse], texts=replace(texts, language="fr")),
        "p835": replace(base, kind="p835", questions=[Question(q, "", 1, 5) for q in ("SIG", "BAK", "OVRL")]),
        "abx": replace(pair, kind="abx", choices=["a", "b"], prompt=""),
        "mushra": replace(base, kind="mushra", questions=[Question("quality", "", 0, 100)], trials_per_sitting=2),
        "environment": replace(base, gates=Gates(level=False, environment=True)),
        "back": replace(base, trials_per_sitting=1, completion=Completion(redirect_url=back)),
        "japanese": replace(base, texts=replace(texts, language="ja")),
        "live": replace(pair, kind="live", trials_per_sitting=2),
        "arena": replace(
            pair, kind="arena", texts=replace(texts, title="The arena"), arena=Arena(per_day=2, min_votes=1)
        ),
        "live-mos": replace(pair, kind="live", questions=[natural], trials_per_sitting=2),
    }
    links: dict[str, dict[str, str]] = {}
    for name, config in configs.items():
        manifest = read_manifest(clips)
        if name in ("similarity", "dcr", "mushra"):
            systems = [replace(s, role="reference") if s.name == SYSTEMS[0] else s for s in manifest.systems]
            manifest = replace(manifest, systems=systems)
        if config.kind in ("live", "arena"):
            systems = [replace(s, voice=VOICES[s.name]) for s in manifest.systems if s.name in VOICES]
            files = {key: path for key, path in manifest.files.items() if key[1] in VOICES}
            manifest = replace(manifest, systems=systems, files=files)
        building.build_campaign(listening, name, config, manifest, seed=7)
        row = listening.store.write_now(lambda session, name=name: campaigns.set_state(session, name, "open").id)
        assert row is not None
        links[name] = {role: listening.access.link_key(row, role) for role in ("panel", "preview")}
    return links


def main() -> None:
    """Create missing campaigns in a folder and serve them."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--key", default="", help="of the studio")
    parser.add_argument("--idle-socket-ms", type=int, default=300_000)
    args = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from fakes import FakeEngine

    from studio.serve.app import create_app
    from studio.serve.server import run
    from studio.serve.settings import ServeSettings
    from studio.ui.app import mount

    folder = args.folder
    listening = ListeningTests(Store(f"sqlite:///{folder / 'studio.sqlite'}"), ClipFolder(folder / "clips"))
    if not (folder / "links.json").exists():
        write_clips(folder / "sounds")
        back = f"http://127.0.0.1:{args.port}/health?finished=1"
        (folder / "links.json").write_text(json.dumps(build(listening, folder / "sounds", back)), encoding="utf-8")
    kept = folder / "traces"
    settings = ServeSettings(port=args.port, key=args.key, idle_socket_ms=args.idle_socket_ms, traces_folder=kept)
    engine = FakeEngine(queue=4)  # raters may use half of them
    app = create_app(engine, settings, listening=listening)
    run(mount(app, engine, settings, listening), settings)


if __name__ == "__main__":
    main()
