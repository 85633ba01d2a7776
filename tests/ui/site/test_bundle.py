"""Bundles of the pages' scripts."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from needs import needs

from studio.ui import bundle as bundling
from studio.ui.bundle import bundle


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(bundling, "WIDGETS", tmp_path)
    bundle.cache_clear()
    return tmp_path


def write(folder: Path, **sources: str) -> None:
    for name, source in sources.items():
        (folder / f"{name}.js").write_text(source, encoding="utf-8")


def test_modules_keep_their_own_names_and_share_what_they_export(folder: Path) -> None:
    shared = "const state = { count: 0 };\nexport function step() { return ++state.count; }\nexport const name = 's';\n"
    one = 'import {\n  name,\n  step as next,\n} from "./shared.js";\nconst state = name;\n'
    one += "export class One { at = next() + state; }\n"
    main = 'import { One } from "./one.js";\nimport { step } from "./shared.js";\nconst state = new One();\n'
    main += "export const found = [state.at, step()];\nconsole.log(JSON.stringify(found));\n"
    write(folder, shared=shared, one=one, main=main)
    node = shutil.which("node")
    needs(node, "Node.js")
    path = folder / "bundle.mjs"
    path.write_text(bundle("main.js"), encoding="utf-8")
    said = subprocess.run([node, str(path)], capture_output=True, text=True, check=True, timeout=120).stdout
    assert json.loads(said) == ["1s", 2], "one copy of the shared module"


@pytest.mark.parametrize(
    "line",
    [
        'import shared from "./shared.js";',
        'import * as shared from "./shared.js";',
        "export default 1;",
        "export { x };",
        'export * from "./shared.js";',
    ],
)
def test_unsupported_form_is_refused_by_name(folder: Path, line: str) -> None:
    write(folder, shared="export const x = 1;\n", one=f"const x = 2;\n{line}\n", main='import { x } from "./one.js";\n')
    with pytest.raises(ValueError, match=r"one\.js: bundles do not support"):
        bundle("main.js")
