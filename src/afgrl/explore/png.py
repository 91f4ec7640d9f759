"""A picture file of one gray with an opacity for each pixel: PNG by the standard library."""

from __future__ import annotations

import struct
import zlib

import numpy as np


def gray_png(gray: int, opacity: np.ndarray) -> bytes:
    """``opacity`` is [height, width] uint8."""
    height, width = opacity.shape
    rows = np.zeros((height, 1 + 2 * width), np.uint8)  # each starts with the number of its filter, 0: none
    rows[:, 1::2], rows[:, 2::2] = gray, opacity
    header = struct.pack(">IIBBBBB", width, height, 8, 4, 0, 0, 0)  # 8 bits each of gray and opacity
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in parts)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
