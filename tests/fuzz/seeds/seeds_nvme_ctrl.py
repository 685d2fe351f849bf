#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the seed corpus of fuzz_nvme_ctrl: python3 tests/fuzz/seeds/seeds_nvme_ctrl.py

Each seed is a short program in the language of fuzz_nvme_ctrl.c, so that mutations begin where
the controller is up and has queues.
"""
import pathlib
import struct

REGISTER, UP, PAIR, COMMAND, RAW, DOORBELL, POKE, STEP, CONSUME, LEND, REVOKE, RESET, HOLD, WINDOW = \
    range(14)
HERE = pathlib.Path(__file__).parent.parent / "corpus" / "fuzz_nvme_ctrl"


def step(n=8):
    return bytes([STEP, n - 1])


def consume(q):
    return bytes([CONSUME, q])


def address(page, offset=0):
    return bytes([page]) + struct.pack("<H", offset)


def command(q, opcode, cid, prp1=(0, 0), prp2=(1, 0), cdw10=0, cdw11=0, cdw12=0, all_ns=False):
    return (bytes([COMMAND, q, opcode, cid, 3 if all_ns else 0]) + address(*prp1) + address(*prp2)
            + struct.pack("<I", cdw10) + bytes([cdw11, cdw12 & 0xff, cdw12 >> 24]))


def raw(q, opcode, cid, nsid=1, prp1=0x10000, prp2=0x11000, cdw10=0, cdw11=0, cdw12=0):
    return bytes([RAW, q]) + struct.pack("<BBHIQQQQIIIIII", opcode, 0, cid, nsid, 0, 0, prp1, prp2,
                                         cdw10, cdw11, cdw12, 0, 0, 0)


def poke(page, offset, data):
    return bytes([POKE, page]) + struct.pack("<H", offset) + bytes([len(data)]) + data


def window(offset, value, how):
    return bytes([WINDOW]) + struct.pack("<H", offset) + bytes([value, how])


UP_PAIR = bytes([UP]) + bytes([PAIR, 0, 1]) + step() + consume(0)
LIST = poke(2, 0, struct.pack("<4Q", 0x13000, 0x14000, 0x15000, 0x16000))
RANGES = poke(0, 0, struct.pack("<IIQIIQ", 0, 4, 0, 0, 1, 9))

BODIES = {
    "identify": bytes([UP]) + command(0, 6, 1, cdw10=1) + command(0, 6, 2, (0, 4), cdw10=0)
    + command(0, 6, 3, cdw10=2) + command(0, 6, 4, cdw10=3) + step() + consume(0),
    "features": bytes([UP]) + command(0, 9, 1, cdw10=7) + command(0, 10, 2, cdw10=7)
    + command(0, 9, 3, cdw10=6) + command(0, 9, 4, cdw10=4, cdw11=9) + step() + consume(0),
    "logs": bytes([UP]) + command(0, 2, 1, cdw10=2 | 127 << 16, all_ns=True)
    + command(0, 2, 2, cdw10=1 | 15 << 16) + command(0, 2, 3, cdw10=3 | 7 << 16) + step()
    + consume(0),
    "readwrite": UP_PAIR + command(1, 1, 1, cdw12=15) + command(1, 2, 2, (4, 0), (5, 0), cdw12=15)
    + command(1, 0, 3) + step() + consume(1),
    "unaligned": UP_PAIR + command(1, 1, 1, (0, 4), cdw12=7) + command(1, 2, 2, (3, 4092), cdw12=7)
    + command(1, 5, 3, (0, 4), cdw12=7) + step() + consume(1),
    "list": UP_PAIR + LIST + command(1, 2, 1, (0, 512), (2, 0), cdw12=31)
    + command(1, 1, 2, (0, 0), (2, 8), cdw12=23) + step() + consume(1),
    "dsm": UP_PAIR + RANGES + command(1, 9, 1, cdw10=1, cdw11=4) + command(1, 8, 2, cdw12=3)
    + command(1, 1, 3, cdw12=0x40000000) + step() + consume(1),
    "events": UP_PAIR + command(0, 12, 9) + step() + bytes([DOORBELL, 2, 9]) + step() + consume(0)
    + command(0, 2, 10, cdw10=1 | 15 << 16) + bytes([DOORBELL, 7, 1]) + step() + consume(0),
    "abort": UP_PAIR + command(1, 2, 5) + command(0, 8, 1, cdw10=1 | 5 << 16) + step()
    + consume(0) + consume(1),
    "delete": UP_PAIR + command(1, 2, 5) + command(0, 0, 1, cdw10=1) + step()
    + command(0, 4, 2, cdw10=1) + step() + consume(0) + consume(1),
    "reset": UP_PAIR + command(1, 2, 5) + bytes([RESET, 1]) + UP_PAIR + command(1, 1, 5) + step()
    + bytes([RESET, 0]),
    "loan": UP_PAIR + bytes([LEND]) + raw(1, 2, 1, prp1=0x80000) + step() + bytes([REVOKE])
    + raw(1, 2, 2, prp1=0x80000) + step() + consume(1),
    "raw": UP_PAIR + raw(1, 1, 1, cdw12=7) + raw(1, 2, 2, prp1=0x40000, cdw12=7)
    + raw(0, 6, 3, nsid=0, cdw10=1) + step() + consume(1) + consume(0),
    "registers": bytes([REGISTER, 7]) + struct.pack("<I", 0x000f000f) + bytes([REGISTER, 8])
    + struct.pack("<I", 0x40000) + bytes([REGISTER, 10]) + struct.pack("<I", 0x41000)
    + bytes([REGISTER, 4]) + struct.pack("<I", 0x00460001) + step(),
    "longring": bytes([REGISTER, 7]) + struct.pack("<I", 0x0fff0fff) + bytes([REGISTER, 8])
    + struct.pack("<I", 0x40000) + bytes([REGISTER, 10]) + struct.pack("<I", 0x47000)
    + bytes([REGISTER, 4]) + struct.pack("<I", 0x00460001) + step(),
    "flight": UP_PAIR + bytes([HOLD, 1]) + command(1, 2, 1, cdw12=7) + command(1, 1, 2, cdw12=7)
    + command(1, 5, 3, cdw12=7) + step() + command(0, 8, 1, cdw10=1 | 2 << 16) + step()
    + bytes([HOLD, 3]) + step() + bytes([RESET, 0]) + step() + bytes([HOLD, 0]) + step() + UP_PAIR,
    "failing": UP_PAIR + bytes([HOLD, 0x80]) + command(1, 2, 1, cdw12=7) + step()
    + bytes([HOLD, 0x80]) + command(1, 1, 2, cdw12=7) + step() + consume(1),
    "window": bytes([REGISTER, 20]) + struct.pack("<I", 1) + window(70, 1, 9) + window(70, 2, 14)
    + UP_PAIR + window(4095, 3, 13) + bytes([REGISTER, 17]) + struct.pack("<I", 1)
    + bytes([REGISTER, 20]) + struct.pack("<I", 0) + window(1, 4, 3) + bytes([RESET, 1]) + step(),
}


def main():
    HERE.mkdir(parents=True, exist_ok=True)
    for name, body in BODIES.items():
        for mode in (0, 1, 2, 5, 6, 15) + ((16, 31) if name == "window" else ()):
            (HERE / f"{name}-{mode}").write_bytes(bytes([mode]) + body)


main()
