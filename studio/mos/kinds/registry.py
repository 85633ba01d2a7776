"""The kinds there are, by name."""

from studio.core.errors import BadOption
from studio.mos.kinds.ab import Ab
from studio.mos.kinds.abx import Abx
from studio.mos.kinds.acr import Acr
from studio.mos.kinds.arena import ArenaKind
from studio.mos.kinds.base import Kind
from studio.mos.kinds.ccr import Ccr
from studio.mos.kinds.dcr import Dcr
from studio.mos.kinds.live import Live
from studio.mos.kinds.mushra import Mushra
from studio.mos.kinds.p835 import P835
from studio.mos.kinds.scale import Scale
from studio.mos.kinds.similarity import Similarity

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Acr(),
        P835(),
        Dcr(),
        Ccr(),
        Ab(),
        Similarity(),
        Abx(),
        Scale(),
        Mushra(),
        Live(),
        ArenaKind(),
    )
}


def kind_of(name: str) -> Kind:
    """A kind by its name. Raises BadOption."""
    if name not in KINDS:
        raise BadOption(f"no kind of test is called {name!r}", f"there are {', '.join(sorted(KINDS))}")
    return KINDS[name]
