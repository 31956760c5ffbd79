"""The command line: looks at what failed and acts on it, through the library's own verbs.

A command is one function that builds a `View`; how it looks (a terminal, plain text, JSON) is the
business of `output`. Commands are imported only when they are called.
"""

from __future__ import annotations

import atexit
import gc


def main() -> None:
    """Run the command line; this is what `redrive` starts."""
    # Most commands end before there is anything to collect; looking for it takes a tenth of their time.
    gc.set_threshold(20_000, 20, 20)
    atexit.register(gc.freeze)
    from redrive.cli._root import root  # noqa: PLC0415 - importing the package must stay cheap

    root(prog_name="redrive")
