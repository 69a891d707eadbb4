"""What lies in a folder that `quern serve --kv-store` keeps; src/kv/store_header.h has the format."""

import re
import struct

ALIGNMENT = 4096
NAME = re.compile(r"[0-9a-f]{32}\.kv")
TEMPORARY = "quern-kv.tmp"
LOCK = "quern-kv.lock"


def round_up(size):
    return -(-size // ALIGNMENT) * ALIGNMENT


def block_files(folder):
    return sorted(folder.glob("??/*.kv"))


def files_in(folder):
    """{what tells a file from one that comes after it: bytes} of all block files and of the one being written. While a
    server makes and removes some, they need not all have been there at one moment."""
    found = {}
    for path in [*block_files(folder), folder / TEMPORARY]:
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        found[path.name, status.st_ino, status.st_mtime_ns] = status.st_size
    return found


def bytes_of(folder):
    """Of all block files while no server changes them."""
    return sum(files_in(folder).values())


def assert_whole(folder):
    """Nothing is there but blocks under their own names, of the size that their headers tell, and the lock. Their
    checksums are the server's to check."""
    for path in folder.rglob("*"):
        if path.is_dir() or path.name == LOCK:
            continue
        assert NAME.fullmatch(path.name) and path.parent.name == path.name[:2], path
        content = path.read_bytes()
        magic, header_bytes, block_bytes, tokens = struct.unpack_from("<8s16x3Q", content)
        assert magic == b"quernKV1"
        assert header_bytes == round_up(112 + 4 * tokens), path
        assert len(content) == header_bytes + round_up(block_bytes), path
