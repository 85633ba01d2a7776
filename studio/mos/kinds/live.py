"""Which of two voices is better to type to: one speaks while the rater types, the other hears the same keys again."""

from studio.mos.kinds.ab import Ab


class Live(Ab):
    """Pair preference of voices that speak while the rater types."""

    name = "live"
    title = "Live typing (pair preference)"
    spoken = True
