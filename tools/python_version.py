"""Print the Python that runs this; fail if it is not of the version given as the first argument."""

from __future__ import annotations

import platform
import sys


def main(wanted: str) -> int:
    found = platform.python_version()
    print(f"{platform.python_implementation()} {found}: {sys.executable}")
    if wanted and ".".join(found.split(".")[:2]) != wanted:
        print(
            f"This environment has Python {found}, but {wanted} was asked for."
            f" Remove {sys.prefix} and start again.",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2] or [""]))
