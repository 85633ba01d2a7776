"""What is mounted at the root of an app: our middleware, and Gradio's app within it."""

from collections.abc import Iterator
from typing import Any

from studio.ui.late_app import LateApp


def layers(app: Any) -> Iterator[Any]:
    """The apps around each other at the root, the outermost first; builds the pages of Gradio components."""
    one = app.routes[-1].app
    while one is not None:
        yield one
        one = (
            one.begin().result(timeout=120.0).app.routes[-1].app
            if isinstance(one, LateApp)
            else one.__dict__.get("_app")
        )


def beside_gradio(app: Any) -> Any:
    """The routes of the app that is built late, without Gradio's."""
    late = next(one for one in layers(app) if isinstance(one, LateApp))
    return late.begin().result(timeout=120.0).app.routes[:-1]


def gradio_of(app: Any) -> Any:
    """Gradio's own app."""
    *_, gradio = layers(app)
    return gradio
