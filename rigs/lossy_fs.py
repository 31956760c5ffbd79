"""A file system that forgets what was not synced, as a disk does whose power is cut.

Each directory at its top is a disk of its own, told what to do by JSON written to `.control`:

    {"disk": "7", "image": "/tmp/x", "seed": 1, "cut": 31, "process": 4711}
    {"disk": "7", "image": "/tmp/x", "seed": 1, "fault": "forget", "at": 5, "after": 20}
    {"disk": "7", "now": true}

The first lets the power be cut at the disk's 31st change, in the middle of which the process is
killed, so that it never learns more than it could have. The second lets the 5th call of a sort go
wrong: `short` writes half; `forget` is a sync that fails, after which the next one has nothing left to
do, with the power cut so many changes after. The third cuts the power now. What is then on the disk (`disk_model`) is laid out as plain files
in the image, with a count of its changes beside.

    python rigs/lossy_fs.py MOUNTPOINT       needs mfusepy, libfuse 3, /dev/fuse and root
"""

# ruff: noqa: D102, ARG002 - the methods and their arguments are the kernel's calls

from __future__ import annotations

import errno
import json
import os
import random
import signal
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mfusepy
from disk_model import PAGE, SECTOR, File, Folder, chance

CONTROL, ORDERS, TOP = "/.control", 0, 1
STRUCK_BY = {"write": "short", "fsync": "forget"}


@dataclass
class Disk:
    """One disk, and what shall happen to it."""

    top: int
    image: str = ""
    seed: int = 0
    cut: int = 0
    process: int = 0
    fault: str = ""
    at: int = 0
    after: int = 0
    changes: int = 0
    struck: int = 0
    """How many calls there were that the fault could strike."""
    off: bool = False


class LossyFs(mfusepy.Operations):  # type: ignore[misc]
    """The calls of the kernel; a file's handle is its number."""

    use_ns = True

    def __init__(self) -> None:
        self._nodes: dict[int, File | Folder] = {TOP: Folder()}
        self._disks: dict[int, Disk] = {TOP: Disk(TOP)}
        """The disk of each node."""

    def init_with_config(self, conn: object, config: Any) -> None:
        """Have nothing cached that we are not asked about, and files gone when they are removed."""
        config.use_ino = config.hard_remove = config.nullpath_ok = 1
        config.entry_timeout = config.attr_timeout = config.negative_timeout = 0.0

    def _find(self, path: str) -> int:
        if path == CONTROL:
            return ORDERS
        number = TOP
        for part in filter(None, path.split("/")):
            node = self._nodes[number]
            if not isinstance(node, Folder) or part not in node.live:
                raise mfusepy.FuseOSError(errno.ENOENT)
            number = node.live[part]
        return number

    def _folder(self, path: str) -> tuple[int, Folder, str]:
        """Give the folder that holds a name, and the name."""
        above, _, name = path.rpartition("/")
        number = self._find(above)
        node = self._nodes[number]
        assert isinstance(node, Folder)
        return number, node, name

    def _file(self, number: int) -> File:
        node = self._nodes[number]
        assert isinstance(node, File)
        return node

    def _new(self, path: str, node: File | Folder) -> int:
        above, folder, name = self._folder(path)
        self._begin(above)
        number = max(self._nodes) + 1
        self._nodes[number] = node
        self._disks[number] = Disk(number) if above == TOP else self._disks[above]
        folder.change({name: number})
        self._end(above)
        return number

    def _begin(self, number: int, call: str = "") -> bool:
        """Count a change that is about to happen; whether it is to go wrong."""
        disk = self._disks[number]
        if disk.off:
            raise mfusepy.FuseOSError(errno.EIO)
        disk.changes += 1
        if not disk.fault or STRUCK_BY.get(call) != disk.fault:
            return False
        disk.struck += 1
        return disk.struck == disk.at

    def _end(self, number: int) -> None:
        """Cut the power if it is time."""
        disk = self._disks[number]
        if disk.changes == disk.cut:
            os.kill(disk.process, signal.SIGKILL)
            self._cut(disk)
            raise mfusepy.FuseOSError(errno.EIO)

    def _cut(self, disk: Disk) -> None:
        disk.off = True
        rand = random.Random(disk.seed)
        in_order = rand.random() < 0.5
        self._lay_out(disk.top, Path(disk.image), rand, in_order)
        count = {"changes": disk.changes, "struck": disk.struck}
        Path(f"{disk.image}.count").write_text(json.dumps(count), "utf-8")

    def _lay_out(self, number: int, place: Path, rand: random.Random, in_order: bool) -> None:
        node = self._nodes[number]
        if isinstance(node, File):
            place.touch(0o600)
            place.write_bytes(node.after(chance(rand)))
            return
        place.mkdir(0o700)
        for name, child in node.after(chance(rand), in_order=in_order).items():
            self._lay_out(child, place / name, rand, in_order)

    def _obey(self, order: dict[str, Any]) -> None:
        disk = self._disks[self._find(order.pop("disk"))]
        if order.pop("now", False):
            self._cut(disk)
        for name, value in order.items():
            setattr(disk, name, value)

    def getattr(self, path: str | None, fh: int | None = None) -> dict[str, Any]:
        number = self._find(path) if path is not None else fh
        assert number is not None
        node = self._nodes.get(number)
        about = {"st_ino": number or 2**40, "st_uid": os.getuid(), "st_gid": os.getgid()}
        if isinstance(node, Folder):
            return {**about, "st_mode": stat.S_IFDIR | 0o700, "st_nlink": 2}
        size = len(node.live) if node else 0
        blocks = -(-size // SECTOR)
        about |= {"st_size": size, "st_blocks": blocks, "st_nlink": 1}
        return {**about, "st_mode": stat.S_IFREG | 0o600}

    def readdir(self, path: str | None, fh: int) -> list[tuple[str, dict[str, int], int]]:
        node = self._nodes[fh]
        assert isinstance(node, Folder)
        names = {".": fh, "..": TOP, **node.live}
        return [(name, {"st_ino": number}, 0) for name, number in names.items()]

    def open(self, path: str, flags: int) -> int:
        return self._find(path)

    def opendir(self, path: str) -> int:
        return self._find(path)

    def create(self, path: str, mode: int, fi: object = None) -> int:
        return self._new(path, File())

    def mkdir(self, path: str, mode: int) -> int:
        self._new(path, Folder())
        return 0

    def read(self, path: str | None, size: int, offset: int, fh: int) -> bytes:
        return bytes(self._file(fh).live[offset : offset + size])

    def write(self, path: str | None, data: bytes, offset: int, fh: int) -> int:
        if fh == ORDERS:
            self._obey(json.loads(data))
            return len(data)
        if self._begin(fh, "write"):
            data = data[: (len(data) + 1) // 2]
        self._file(fh).write(offset, data)
        self._end(fh)
        return len(data)

    def truncate(self, path: str | None, length: int, fh: int | None = None) -> int:
        number = self._find(path) if path is not None else fh
        assert number is not None
        if number != ORDERS:
            self._begin(number)
            self._file(number).truncate(length)
            self._end(number)
        return 0

    def fsync(self, path: str | None, datasync: int, fh: int) -> int:
        fails = self._begin(fh, "fsync")
        self._end(fh)
        if fails:
            self._file(fh).forget()
            disk = self._disks[fh]
            disk.cut = disk.after and disk.changes + disk.after
            raise mfusepy.FuseOSError(errno.EIO)
        self._file(fh).sync()
        return 0

    def fsyncdir(self, path: str | None, datasync: int, fh: int) -> int:
        self._begin(fh)
        self._end(fh)
        self._nodes[fh].sync()
        return 0

    def unlink(self, path: str) -> int:
        number, folder, name = self._folder(path)
        self._begin(number)
        folder.change({name: None})
        self._end(number)
        return 0

    def rename(self, old: str, new: str) -> int:
        number, folder, name = self._folder(old)
        other, _, to = self._folder(new)
        if other != number:
            raise mfusepy.FuseOSError(errno.EXDEV)
        self._begin(number)
        folder.change({name: None, to: folder.live[name]})
        self._end(number)
        return 0

    def chmod(self, path: str, mode: int) -> int:
        return 0

    def utimens(self, path: str, times: object = None) -> int:
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        return dict.fromkeys(("f_blocks", "f_bfree", "f_bavail"), 2**20) | {"f_bsize": PAGE}


class Fuse(mfusepy.FUSE):  # type: ignore[misc]
    """The binding, which forgets the handle of a file that is cut by its descriptor."""

    def truncate_fuse_3(self, path: bytes | None, length: int, fip: Any) -> int:
        name = None if path is None else path.decode("utf-8", "surrogateescape")
        cut: int = self.operations.truncate(name, length, fip.contents.fh if fip else None)
        return cut


if __name__ == "__main__":
    Fuse(LossyFs(), sys.argv[1], foreground=True, nothreads=True, fsname="lossy")
