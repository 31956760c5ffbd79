"""Fetch the console's JavaScript libraries: `make vendor`.

The versions and the integrity of each package stand here; npm's registry serves them. The files and
licences are copied into the package, and VENDOR.json gets their hashes, which a test compares.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STATIC = ROOT / "src" / "redrive" / "web" / "console" / "static"
PACKAGES = {
    "htmx.org@2.0.11": (
        "sha512-Thx/WtpeOQqSrqBCw/A1cwGJGg4UrVa3+sW0GmrM3p4gJgO89ecH4qtbnyzDDWFvBTqjnIMCgELTNt636dtamA==",
        {"dist/htmx.min.js": "htmx.js", "LICENSE": "htmx.LICENSE"},
    ),
    "idiomorph@0.8.0": (
        "sha512-R47JBL+6jHDQvcnbppIUtXXcxi5h6+wuCEEZXnRhUltsgzPFKzThL5PuHppP9ypJuy+7WawcY1TsSBD/iQbMhw==",
        {"dist/idiomorph-ext.min.js": "idiomorph.js", "LICENSE": "idiomorph.LICENSE"},
    ),
}
AXE = (
    "axe-core@4.14.0",
    "sha512-9WTZxEjsZ7b13TH8JPmbV2z8CHbl80/2hm3XPEG4JgNdQLK81IBRXmSxHfMAOkSqQeRxT/0dwNDz2GOm3zzpcQ==",
)
"""What is fetched, its integrity as npm's registry states it, and which files become which."""


def fetch(package: str, integrity: str, folder: Path) -> bytes:
    """Download a package, and refuse one whose bytes are not those that are pinned here."""
    command = ["npm", "pack", "--silent", "--pack-destination", str(folder), package]
    name = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1]
    content = (folder / name).read_bytes()
    found = "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
    if found != integrity:
        raise SystemExit(f"{package}: expected {integrity}, found {found}; nothing was changed")
    return content


def fetch_axe(target: Path) -> None:
    """Put axe-core, which only the browser tests use, into a file."""
    with tempfile.TemporaryDirectory() as folder:
        content = fetch(*AXE, Path(folder))
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        target.write_bytes(member.read())


def main() -> None:
    if sys.argv[1:2] == ["--axe"]:
        fetch_axe(Path(sys.argv[2]))
        return
    hashes: dict[str, dict[str, str]] = {}
    for package, (integrity, files) in PACKAGES.items():
        with tempfile.TemporaryDirectory() as folder:
            content = fetch(package, integrity, Path(folder))
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for source, target in files.items():
                member = archive.extractfile(f"package/{source}")
                assert member is not None, source
                (STATIC / target).write_bytes(text := member.read())
                hashes[target] = {
                    "package": package,
                    "sha256": hashlib.sha256(text).hexdigest(),
                }
    (STATIC / "VENDOR.json").write_text(json.dumps(hashes, indent=2) + "\n", "utf-8")
    print(f"{len(hashes)} files in {STATIC.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
