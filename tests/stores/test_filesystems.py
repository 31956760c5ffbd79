"""Which file system a store is on, read from what the kernel says about its mounts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from redrive.stores import _files
from tablekit import each_row

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


@each_row(
    "directory, kind",
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
    assert _files.filesystem_of(Path(directory)) == kind


@each_row(
    "place, warning",
    [
        ("/mnt/share/jobs.db", "network file system (nfs4)"),
        ("/mnt/with space/jobs.db", "network file system (cifs)"),
        ("/mnt/host/jobs.db", "network file system (9p)"),
        ("/mnt/far/jobs.db", "network file system (fuse.sshfs)"),
        ("/layer/jobs.db", "ephemeral"),
        ("/var/jobs.db", ""),
    ],
)
def test_a_place_where_jobs_may_be_lost_is_warned_about(
    caplog: pytest.LogCaptureFixture, place: str, warning: str
) -> None:
    _files._warn_of_filesystem(Path(place))
    assert warning in caplog.text
    assert bool(warning) is bool(caplog.text)


def test_a_system_that_does_not_tell_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS, which has no such file."""

    def missing(*_: object, **__: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    assert _files.filesystem_of(Path("/mnt/share")) == ""
