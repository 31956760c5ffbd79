"""The command line: one module a group of commands, imported when it is called.

Here: options, and the `View` a command builds. Not here: how it looks (`cli.output`), actions (`desk`).
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
