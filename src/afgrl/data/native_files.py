"""Files for Arrow that have no Python in them.

Threads of Arrow release what they have read some time after it was returned. If Python read the bytes, that needs the
lock of the interpreter; Python ends a thread that asks for it while the interpreter is ending, which in a destructor of
C++ ends the process: `terminate called without an active exception`, exit code 134.
"""

from __future__ import annotations

import codecs
import io
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa

from afgrl.data.spill import Spill

UTF8 = ("utf-8", "utf-8-sig")  # Arrow skips a byte order mark
CHUNK = 1 << 20  # characters or bytes that are copied at once


def native_file(path: Path) -> pa.NativeFile:
    """A file opened by Arrow; by bytes, because not every name is valid text."""
    with open(path, "rb"):  # its errors say more than those of Arrow
        return pa.OSFile(os.fsencode(path))


def native_text(file: Any, encoding: str, spill: Spill | None = None) -> pa.NativeFile:
    """The text of a file that Python has opened, in UTF-8: the file itself if it has that, otherwise a copy in memory,
    or with ``spill`` there."""
    is_utf8 = codecs.lookup(encoding).name in UTF8
    if is_utf8 and isinstance(file, (io.BufferedReader, io.BufferedRandom)):
        file.flush()
        return native_file(Path(file.name))
    copy = None if spill is None else spill.new_file()
    with pa.BufferOutputStream() if copy is None else pa.OSFile(os.fsencode(copy), "wb") as sink:
        if is_utf8:
            shutil.copyfileobj(file, sink, CHUNK)
        else:
            text = io.TextIOWrapper(file, encoding, newline="")
            try:
                while part := text.read(CHUNK):
                    sink.write(part.encode())
            finally:
                text.detach()  # otherwise it closes the file
        return pa.BufferReader(sink.getvalue()) if copy is None else native_file(copy)
