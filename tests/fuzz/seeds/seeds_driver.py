#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the seeds of fuzz_nvme_identify and fuzz_nvme_completions:

python3 tests/fuzz/seeds/seeds_driver.py
"""
import pathlib
import struct

CORPUS = pathlib.Path(__file__).parent.parent / "corpus"


def identify(shift=12, blocks=4096, mdts=5, metadata=0, flbas=0, formats=1, sizes=(0x66, 0x44)):
    """An identify controller and an identify namespace page."""
    ctrl, ns = bytearray(4096), bytearray(4096)
    ctrl[4:72] = b"S-0001".ljust(20) + b"A drive".ljust(40) + b"1.0".ljust(8)
    ctrl[77] = mdts
    ctrl[512:514] = bytes(sizes)
    struct.pack_into("<IH", ctrl, 516, 1, 0x0c)
    ctrl[525] = 1
    struct.pack_into("<QQQ", ns, 0, blocks, blocks, 0)
    ns[25:27] = bytes([formats - 1, flbas])
    for i in range(formats):
        struct.pack_into("<HBB", ns, 128 + 4 * i, metadata, shift, 0)
    return bytes(ctrl + ns)


IDENTIFY = {
    "4k": identify(),
    "512": identify(shift=9, mdts=0),
    "64k": identify(shift=16, mdts=4),
    "64k-small-transfers": identify(shift=16, mdts=1),
    "formats": identify(flbas=15, formats=16),
    "huge": identify(blocks=1 << 51),
    "metadata": identify(metadata=8),
    "empty": identify(blocks=0),
    "entries": identify(sizes=(0x77, 0x44)),
    "short": identify()[:600],
}

PUT, RING, ANSWER, LIE, SCRIBBLE, POLL, TRY, WAIT, ABANDON, CANCEL, RESET = range(11)


def put(n=1, hint=0):
    return bytes([PUT, hint]) * n + bytes([RING])


def answer(start=0, status=0):
    return bytes([ANSWER, start, status])


def lie(cid, head, status=0, odd=0, qid=None, result=7):
    more = struct.pack("<I", qid) if qid is not None else b""
    return bytes([LIE, cid, head, status, odd]) + more + struct.pack("<I", result)


def on(op, start=0):
    return bytes([op, start])


POLL_ = bytes([POLL])
FRESH = on(RESET, 1)

COMPLETIONS = {
    "one": put() + answer() + POLL_ + on(TRY),
    "error": put() + answer(0, 0x81) + on(WAIT),
    "many": (put(3) + answer(2) + answer(0) + answer(1) + POLL_ + on(TRY) * 3) * 8,
    "full": put(20) + answer() + on(WAIT) + put(2),
    "timeout": put(2) + on(WAIT) + on(ABANDON) + answer() + POLL_ + put(),
    "late": put(2) + on(ABANDON) + on(ABANDON, 1) + answer() + answer(1) + POLL_ + put(2),
    "not-told": bytes([PUT, 0]) + lie(0, 1) + POLL_ + on(WAIT) + FRESH + put(),
    "twice": put() + lie(0, 1) + lie(0, 1) + POLL_ + on(TRY) + FRESH,
    "nobody": put() + lie(9, 1) + POLL_ + on(WAIT) + FRESH + put() + answer() + on(WAIT),
    "head": put(2) + lie(0, 3) + POLL_ + FRESH + put() + lie(0, 0) + POLL_ + FRESH,
    "far-head": put(2) + lie(0, 1, odd=4) + POLL_ + FRESH,
    "far-id": put(2) + lie(1, 1, odd=2) + POLL_ + FRESH,
    "queue": put(2) + lie(0, 1, odd=1, qid=9) + POLL_ + FRESH,
    "scribble": put(3) + bytes([SCRIBBLE, 0]) + struct.pack("<IIII", 1, 2, 3 << 16 | 1, 1 << 16)
    + POLL_ + bytes([SCRIBBLE, 1]) + b"\xff" * 16 + POLL_ + on(WAIT) + FRESH,
    "cancel": put(3) + answer() + POLL_ + bytes([CANCEL]) + on(RESET, 0) + on(WAIT) * 3 + FRESH
    + put() + answer() + on(WAIT),
    "busy": put(2) + bytes([CANCEL]) + on(PUT) + on(RESET, 0) + FRESH + on(RESET, 0),
}


def write(name, seeds):
    folder = CORPUS / name
    folder.mkdir(parents=True, exist_ok=True)
    for seed, data in seeds.items():
        (folder / seed).write_bytes(data)


write("fuzz_nvme_identify", IDENTIFY)
write("fuzz_nvme_completions",
      {f"{name}-{shifts:02x}": bytes([shifts, ids]) + body
       for name, body in COMPLETIONS.items()
       for shifts, ids in ((0x00, 0), (0x09, 0), (0x12, 2), (0x1a, 0), (0x1b, 9))})
