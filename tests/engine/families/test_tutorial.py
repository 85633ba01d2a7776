"""docs/add-a-family.md shows the code of tests/toyfamily.py, on which the laws run."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_tutorial_shows_the_family_that_the_laws_run_on() -> None:
    source = (ROOT / "tests" / "toyfamily.py").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "add-a-family.md").read_text(encoding="utf-8"), re.S)
    assert len(blocks) == 4 and all(block in source for block in blocks)
    shown = {node.name for block in blocks for node in ast.parse(block).body if hasattr(node, "name")}
    defined = {node.name for node in ast.parse(source).body if hasattr(node, "name")}
    assert defined - shown == {"installed"}
