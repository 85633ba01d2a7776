"""Where the files are that the studio ships: voices, texts, the demo.

A checkout holds them at its top level, an installed package within itself (``setup.py`` copies them there).
"""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
ASSETS = next((p for p in (_PACKAGE / "assets", _PACKAGE.parent / "assets") if p.is_dir()), _PACKAGE / "assets")
TEXTS = ASSETS / "texts"
VOICES = ASSETS / "voices"
RECIPES = ASSETS / "recipes"
TABLES = ASSETS / "tables"  # papers' tables, to be made anew
DEMO = ASSETS / "demo"
DEFAULT_VOICE = "wren"  # where it is among the voices of a folder, it is the first
TRAPS = ASSETS / "traps"
