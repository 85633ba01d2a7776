"""The JavaScript client, installed by npm and run by Node.js against a server."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from needs import needs
from serve.serving import Served

ROOT = Path(__file__).parents[1]
KEY = "a-key-that-nobody-guesses"
SCRIPT = """
import { Client, Refused } from "streaming-tts-studio-client";
const client = new Client(process.argv[2], { key: process.argv[3] });
const out = {};
const spoken = async (text, settings) => {
  const events = [];
  for await (const event of client.speak(text, settings)) events.push(event);
  return events;
};
const samples = (events) => events.filter((e) => e.type === "audio").reduce((sum, e) => sum + e.pcm.length, 0);

async function* pieces() {
  for (const word of ["Alpha ", "beta ", "gamma."]) yield word;
}
const whole = await spoken("Alpha beta gamma.", { voice: "tone:low" });
const parts = await spoken(pieces(), { voice: "tone:low" });
out.samples = [samples(whole), samples(parts), whole.at(-1).samples];
out.fast = samples(await spoken("Alpha beta gamma.", { voice: "tone:low", speed: 2 }));
out.words = parts.filter((e) => e.type === "word_end").length;
out.kinds = [...new Set(whole.map((e) => e.type))];

const utterance = client.utterance({ plays: true });
utterance.send("one two three four five six ");
let heard;
for await (const event of utterance) {
  if (event.type === "word_end" && event.i === 1) utterance.cancel(event.sample);
  if (event.type === "cancelled") heard = event.heard;
}
out.heard = heard;
out.url = utterance.wavUrl;

try {
  await spoken("hello", { options: { nothing: 1 } });
} catch (error) {
  out.refused = [error instanceof Refused, error.code];
}
try {
  await spoken("word ".repeat(3).split(" ").map((w, k) => { if (k === 2) throw new Error("mine"); return w; }));
} catch (error) {
  out.mine = error.message;
}
try {
  const gone = new Client("http://127.0.0.1:1");
  for await (const event of gone.speak("hello")) out.never = event;
} catch (error) {
  out.gone = error.message;
}
console.log(JSON.stringify(out));
"""


def node(folder: Path, *arguments: str) -> dict[str, Any]:
    """The JSON that a script prints; Node.js 20 has WebSocket behind a flag."""
    command = ["node", "--experimental-websocket", "--no-warnings", "client.mjs", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120.0)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_installed_module_speaks(tmp_path: Path) -> None:
    needs(shutil.which("node") and shutil.which("npm"), "Node.js and npm")
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "package.json").write_text('{"type": "module"}')
    module = ROOT / "studio" / "ui" / "widgets" / "wire"
    packed = subprocess.run(
        ["npm", "pack", str(module), "--pack-destination", str(tmp_path)], cwd=tmp_path, capture_output=True, text=True
    )
    (archive,) = tmp_path.glob("*.tgz")
    flags = ["--no-audit", "--no-fund", "--offline"]
    done = subprocess.run(["npm", "install", *flags, str(archive)], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, packed.stderr + done.stderr
    (folder / "client.mjs").write_text(SCRIPT)
    server = Served(tmp_path, key=KEY)
    try:
        out = node(folder, server.url, KEY)
    finally:
        server.stop()
    assert out["samples"][0] == out["samples"][1] == out["samples"][2] > 12_000
    assert out["words"] == 3 and {"ready", "committed", "audio", "word_start", "ended"} <= set(out["kinds"])
    assert out["heard"] == [0, 1] and out["url"].startswith("traces/")
    assert out["refused"] == [True, "bad_option"]
    assert out["mine"] == "mine" and "reached" in out["gone"] and "never" not in out
