"""An engine for each registered family."""

from collections.abc import Iterator

import pytest
from engine.families.family_engines import FAMILIES, opened

from studio.engine.engine import LocalEngine


@pytest.fixture(scope="module", params=FAMILIES)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    with opened(request.param, tmp_path_factory) as engine:
        yield engine
