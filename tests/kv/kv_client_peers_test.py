#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""kv_client_peers_test.py FATHOM KV_CLIENT_TEST PEER: the client library with servers that are not ours.

PEER memcached: a memcached. PEER nutcracker: three of our servers behind nutcracker.
"""
import os
import shutil
import subprocess
import sys

from kv_fixture import NUTCRACKER, Daemon, Folder, Nutcracker, Server, fail, free_port, skip

FATHOM, PROGRAM, PEER = sys.argv[1:]


def run_program(*arguments):
    if subprocess.run([PROGRAM, *arguments]).returncode != 0:
        fail("%s fails with %s" % (os.path.basename(PROGRAM), PEER))


def with_memcached():
    memcached = shutil.which("memcached")
    if not memcached:
        skip("memcached is not installed")
    port = free_port()
    command = [memcached, "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-m", "64"]
    if os.getuid() == 0:
        command += ["-u", "root"]
    with Daemon(command, port):
        run_program("127.0.0.1:%d" % port)


def with_nutcracker():
    if not NUTCRACKER:
        skip("nutcracker is not installed")
    with Folder() as folder:
        nodes = []
        try:
            for _ in range(3):
                nodes.append(Server(FATHOM, "--memory", "16M"))
            with Nutcracker(folder, nodes) as proxy:
                run_program("--proxy", "127.0.0.1:%d" % proxy.port)
        finally:
            for node in nodes:
                node.__exit__()


{"memcached": with_memcached, "nutcracker": with_nutcracker}[PEER]()
