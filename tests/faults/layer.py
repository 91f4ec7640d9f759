"""Faults in the file operations of a process: it is killed, or the operation fails.

The layer is Python itself. An audit hook sees every opened, renamed and removed file and every made folder, also inside
libraries, before it happens; ``open`` returns a raw file whose ``write`` can fail halfway; ``os.fsync`` is wrapped. An
LD_PRELOAD or ptrace shim would also see what native code does on its own, but needs a compiler or a privilege that not
every machine has, and cannot tell which of thousands of system calls belong to a run. Nothing is missed, because afgrl
writes every byte through a file that Python opened (``afgrl.runs.files``); ``test_faults.py`` checks that each file
that a command changes is opened and written here.

Only for a process that was forked for it: an audit hook cannot be removed.
"""

import builtins
import errno
import io
import os
import signal
import sys

KILL, EIO, ENOSPC = "kill", "EIO", "ENOSPC"
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
NEEDS_SPACE = ("open", "write", "mkdir")


class Layer:
    """Counts the operations below a folder, and strikes at number ``at``, counted from 1.

    EIO strikes once. A full disk stays full: after ENOSPC, nothing more can be created or written, while files can
    still be renamed and removed.
    """

    def __init__(self, folder, at=None, fault=None):
        self.folder, self.at, self.fault = str(folder), at, fault
        self.points = []  # (kind, path)

    def install(self):
        self.plain_open = builtins.open
        builtins.open = io.open = self.open
        self.plain_fsync = os.fsync
        os.fsync = self.fsync
        sys.addaudithook(self.audit)

    def reaches(self, kind, path):
        """Whether the operation has to fail."""
        path = os.fsdecode(path)
        if not path.startswith(self.folder):
            return False
        self.points.append((kind, path))
        number = len(self.points)
        if number != self.at:
            return self.fault == ENOSPC and self.at is not None and number > self.at and kind in NEEDS_SPACE
        return not (kind == "read" and self.fault == ENOSPC)

    def strike(self, path):
        if self.fault == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        number = getattr(errno, self.fault)
        raise OSError(number, os.strerror(number), os.fsdecode(path))

    def audit(self, event, arguments):
        kind, path = self.operation(event, arguments)
        if kind and self.reaches(kind, path):
            self.strike(path)

    def operation(self, event, arguments):
        if event == "open" and isinstance(arguments[0], (str, bytes, os.PathLike)):
            return ("open" if arguments[2] & WRITING else "read"), arguments[0]
        if event == "os.rename":
            return "rename", arguments[1]
        if event in ("os.remove", "os.rmdir", "os.mkdir"):
            path, folder = arguments[0], arguments[-1]
            if folder != -1:  # as shutil.rmtree does
                path = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), os.fsdecode(path))
            return event.removeprefix("os."), path
        return None, None

    def fsync(self, descriptor):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if self.reaches("flush", path):
            self.strike(path)
        self.plain_fsync(descriptor)

    def open(self, file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None):
        is_path = isinstance(file, (str, bytes, os.PathLike))
        if not is_path or not set(mode) & set("wax") or not os.fsdecode(file).startswith(self.folder):
            return self.plain_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        raw = _File(self, file, mode.replace("b", "").replace("t", ""))
        buffered = io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)


class _File(io.FileIO):
    """A raw file of which a write may stop halfway, as on a disk that becomes full: the system call writes a part and
    says how much, and the call for the rest fails."""

    def __init__(self, layer, path, mode):
        super().__init__(path, mode)
        self.layer, self.path, self.fails_next = layer, path, False

    def write(self, data):
        if self.fails_next:
            self.fails_next = self.layer.fault == ENOSPC
            self.layer.strike(self.path)
        if self.layer.reaches("write", self.path):
            self.fails_next = True
            written = super().write(bytes(data)[: (len(data) + 1) // 2])
            if self.layer.fault == KILL or written == len(data):
                self.layer.strike(self.path)
            return written
        return super().write(data)
