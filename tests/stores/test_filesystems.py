"""Which file system a store is on, read from what the kernel says about its mounts (T6, F22)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from redrive.errors import StoreError
from redrive.stores import _files

MOUNTS = """\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
22 21 0:5 / /proc rw - proc proc rw
30 21 0:40 / /mnt/share rw,relatime shared:9 master:2 - nfs4 server:/export rw,vers=4.2
31 21 8:2 / /mnt/share/local rw - xfs /dev/sdb1 rw
32 21 0:41 / /mnt/with\\040space rw - cifs //server/x rw
33 21 0:42 / /mnt/host rw - 9p share rw
34 21 0:43 / /mnt/far rw - fuse.sshfs me@far: rw
35 21 0:44 / /srv rw - ext4 /dev/sdc1 rw
36 35 0:45 / /srv rw - nfs server:/srv rw
37 21 0:46 / /layer rw - overlay overlay rw
"""


@pytest.fixture(autouse=True)
def mounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this machine have other mounts."""
    real = Path.read_text

    def read(path: Path, *args: Any, **kwargs: Any) -> str:
        return MOUNTS if str(path) == "/proc/self/mountinfo" else real(path, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", read)


@pytest.mark.parametrize(
    ("directory", "kind"),
    [
        ("/", "ext4"),
        ("/var", "ext4"),
        ("/mnt/share", "nfs4"),
        ("/mnt/share/jobs/deep", "nfs4"),
        ("/mnt/shared", "ext4"),
        ("/mnt/share/local/jobs", "xfs"),
        ("/mnt/with space/jobs", "cifs"),
        ("/mnt/host/jobs", "9p"),
        ("/mnt/far", "fuse.sshfs"),
        ("/srv/jobs", "nfs"),
        ("/layer/app", "overlay"),
    ],
)
def test_the_nearest_and_latest_mount_says_what_a_directory_is_on(
    directory: str, kind: str
) -> None:
    """F22."""
    assert _files.filesystem_of(Path(directory)) == kind
    assert _files.is_network(Path(directory)) is (kind not in {"ext4", "xfs", "overlay"})


@pytest.mark.parametrize("directory", ["/mnt/share", "/mnt/with space", "/mnt/host", "/mnt/far"])
def test_a_store_on_a_network_is_refused_before_anything_is_made(directory: str) -> None:
    """F22: with the remedy, and allowed only to those who say that they know."""
    place = Path(directory) / "jobs.db"
    with pytest.raises(StoreError, match=r"network file system .*local disk.*allow_network"):
        _files._check_filesystem(place, allow_network=False)
    _files._check_filesystem(place, allow_network=True)


def test_the_layer_of_a_container_is_warned_about_and_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """F22: what is there is gone with the container."""
    _files._check_filesystem(Path("/layer/jobs.db"), allow_network=False)
    assert "ephemeral" in caplog.text
    caplog.clear()
    _files._check_filesystem(Path("/var/jobs.db"), allow_network=False)
    assert caplog.text == ""


def test_a_system_that_does_not_tell_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """F22: as on macOS, which has no such file."""

    def missing(*_: object, **__: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    assert _files.filesystem_of(Path("/mnt/share")) == ""
    _files._check_filesystem(Path("/mnt/share/jobs.db"), allow_network=False)
