"""Registry of the kinds of test."""

from studio.core.errors import BadOption
from studio.mos.kinds.base import Kind
from studio.mos.kinds.choices import AbKind, AbxKind, ArenaKind, LiveKind, SimilarityKind
from studio.mos.kinds.scores import AcrKind, CcrKind, DcrKind, MushraKind, P835Kind, ScaleKind

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        AcrKind(),
        P835Kind(),
        DcrKind(),
        CcrKind(),
        AbKind(),
        SimilarityKind(),
        AbxKind(),
        ScaleKind(),
        MushraKind(),
        LiveKind(),
        ArenaKind(),
    )
}


def kind_of(name: str) -> Kind:
    """A kind by its name. Raises BadOption."""
    if name not in KINDS:
        raise BadOption(f"no kind of test is called {name!r}", f"there are {', '.join(sorted(KINDS))}")
    return KINDS[name]
