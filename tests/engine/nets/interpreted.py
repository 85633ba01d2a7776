"""Triton's interpreter, which runs the CUDA form's kernels on a CPU; import it before the kernels.

TRITON_INTERPRET=1 is set in tests/conftest.py: Triton reads it when a kernel is defined.
"""

import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from triton.runtime import interpreter

assert os.environ.get("TRITON_INTERPRET") == "1", "tests/conftest.py sets it"
_patch_tensor = interpreter._patch_lang_tensor
_patch_language = interpreter._patch_lang
_patched = set[frozenset[str]]()


def _patch_tensor_with_scalars(tensor: Any, scope: Any) -> None:
    """Bounds of loops are arrays of one number there, which numpy 2.4 no longer converts by itself."""
    _patch_tensor(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: int(np.asarray(self.handle.data).item()))


def _patch_language_once(function: Callable[..., Any]) -> Any:
    """The interpreter patches Triton's language again for every call of a function, which takes most of the time."""
    modules = (one for one in function.__globals__.values() if isinstance(one, ModuleType))
    key = frozenset(one.__name__ for one in modules if one.__name__.startswith("triton.language"))
    if key not in _patched:
        _patched.add(key)
        _patch_language(function)  # never undone: nothing is compiled in this process
    return interpreter._LangPatchScope()


interpreter._patch_lang_tensor = _patch_tensor_with_scalars
interpreter._patch_lang = _patch_language_once
