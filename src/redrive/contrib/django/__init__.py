"""Redrive in a Django project: `app`, with its store in the project's database.

Here: the app config, the store of DATABASES, `manage.py redrive`. Not here: submitting in your
transaction (`handler`) and tests (`testing`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from redrive.app import Redrive

    app: Redrive

__all__ = ["app"]


def __getattr__(name: str) -> object:
    """Make the app when it is first used: Django imports this package before its settings are read."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    from redrive.contrib.django import project  # noqa: PLC0415

    project.set_up()
    if name not in globals():  # the handlers, which setting up imports, use it too
        globals()[name] = project.make_app()
    return globals()[name]
