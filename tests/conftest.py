"""Switches that every test turns on, in processes that it starts too."""

import os

os.environ["STUDIO_POISON"] = "1"
