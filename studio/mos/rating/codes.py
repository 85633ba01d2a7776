"""Codes by which a rater without a panel goes on in another browser: ``7K3Q-...``, checked against slips of the pen."""

import hashlib
import secrets

from studio.core.errors import BadOption

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32: no I, L, O, U
_ALIKE = str.maketrans("ILO", "110")
_DRAWN, _CHECKS = 10, 2  # 50 random bits and 10 that follow from them


def new_code() -> str:
    """A code that nobody has and nobody guesses."""
    return _shown("".join(secrets.choice(_ALPHABET) for _ in range(_DRAWN)))


def read_code(text: str) -> str:
    """A code as it was given out, however it was typed. Raises BadOption for one that never was."""
    letters = "".join(text.upper().split()).replace("-", "").translate(_ALIKE)
    code = _shown(letters[:_DRAWN])
    if len(letters) != _DRAWN + _CHECKS or code.replace("-", "") != letters:
        raise BadOption("this code is not right", "it has three groups of four; look at it again, letter by letter")
    return code


def _shown(drawn: str) -> str:
    digest = int.from_bytes(hashlib.sha256(drawn.encode()).digest()[:2], "big")
    letters = drawn + "".join(_ALPHABET[digest >> 5 * place & 31] for place in range(_CHECKS))
    return "-".join(letters[at : at + 4] for at in range(0, len(letters), 4))
