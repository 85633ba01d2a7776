"""The studio's wheel, the packages that it needs and their metadata, once for all tests."""

from pathlib import Path

import pytest
from installed.environments import build_wheel, link_packages, write_metadata


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    link_packages(folder)
    return folder


@pytest.fixture(scope="session")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("metadata")
    write_metadata(folder)
    return folder
