"""Importing studio.measure does not load torch."""

import pkgutil
import subprocess
import sys

import studio.measure

MODULES = [module.name for module in pkgutil.walk_packages(studio.measure.__path__, "studio.measure.")]


def test_importing_measure_loads_no_torch():
    assert len(MODULES) > 15
    code = f"import sys; [__import__(name) for name in {MODULES}]; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
