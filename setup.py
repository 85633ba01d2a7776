"""Beside pyproject.toml: a wheel carries ``assets/`` within the package, so that an installed studio has its voices."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithAssets(build_py):
    """Copies ``assets/`` to ``studio/assets``, but for an editable install, which reads the checkout's."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            to = Path(self.build_lib) / "studio" / "assets"
            shutil.copytree("assets", to, dirs_exist_ok=True)


setup(cmdclass={"build_py": BuildWithAssets})
