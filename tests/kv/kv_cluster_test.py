#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""kv_cluster_test.py FATHOM: three nodes behind nutcracker, and with libmemcached's ketama.

One node is killed: its keys miss, those of the others do not. It comes back on its flash: all are there.
The configuration is that of contrib/nutcracker.yml.
"""
import sys

from kv_fixture import NUTCRACKER, Client, Folder, Nutcracker, Server, fail, skip, until

try:
    import pylibmc
except ImportError:
    skip("no pylibmc (python3-pylibmc)")

FATHOM = sys.argv[1]
NODES = 3
KEYS = [b"user:%d" % i for i in range(600)]


def value_of(key):
    return key * 40


def start_node(folder, n, port=0):
    return Server(FATHOM, "--memory", "8M", "--flash", folder.flash("node%d" % n), "--persist",
                  "write-through", port=port)


def owners(nodes):
    """Which node has each key; a key is on one node."""
    found = {}
    for n, node in enumerate(nodes):
        with node.dial() as c:
            for key in KEYS:
                if c.ask(b"mg %s\r\n" % key) == b"HD":
                    if key in found:
                        fail("%s is on two nodes" % key)
                    found[key] = n
    return found


class Proxy:
    """Nutcracker in front of the nodes."""

    def __init__(self, folder, nodes):
        self.proxy = Nutcracker(folder, nodes)
        self.client = Client(self.proxy.port)

    def set(self, key, value):
        return self.client.set(key, value) == b"STORED"

    def get(self, key):
        """None: a miss, or the node is away."""
        head = self.client.ask(b"get %s\r\n" % key)
        if head == b"END" or head.startswith(b"SERVER_ERROR"):
            return None
        size = int(head.split()[3])
        value = self.client.file.read(size)
        assert self.client.line() == b"" and self.client.line() == b"END"
        return value

    def many(self, keys):
        """A get of several keys, which the proxy splits."""
        found = {}
        head = self.client.ask(b"get " + b" ".join(keys) + b"\r\n")
        while head != b"END":
            words = head.split()
            assert words[0] == b"VALUE", head
            found[words[1]] = self.client.file.read(int(words[3]) + 2)[:-2]
            head = self.client.line()
        return found

    def close(self):
        self.client.close()
        self.proxy.stop()


class Ketama:
    """libmemcached chooses the node."""

    def __init__(self, folder, nodes):
        del folder
        self.client = pylibmc.Client(["127.0.0.1:%d" % n.port for n in nodes],
                                     behaviors={"ketama": True, "tcp_nodelay": True,
                                                "retry_timeout": 1})

    def set(self, key, value):
        return self.client.set(key.decode(), value)

    def get(self, key):
        try:
            return self.client.get(key.decode())
        except pylibmc.Error:
            return None

    def many(self, keys):
        found = self.client.get_multi([k.decode() for k in keys])
        return {k.encode(): v for k, v in found.items()}

    def close(self):
        self.client.disconnect_all()


def check(client, owner, away):
    """Keys of the node that is away miss, all others have their value."""
    for key in KEYS:
        value = client.get(key)
        if value != (None if owner[key] == away else value_of(key)):
            fail("%s of node %d: %s" % (key, owner[key], value and value[:20]))


def check_one(make, folder, nodes):
    client = make(folder, nodes)
    for key in KEYS:
        assert client.set(key, value_of(key)), key
    owner = owners(nodes)
    shares = [sum(1 for n in owner.values() if n == i) for i in range(NODES)]
    if len(owner) != len(KEYS) or min(shares) < len(KEYS) / NODES / 3:
        fail("keys of the nodes: %s" % shares)
    check(client, owner, None)
    assert client.many(KEYS[:100]) == {k: value_of(k) for k in KEYS[:100]}
    nodes[1].kill()
    check(client, owner, 1)
    port = nodes[1].port
    nodes[1].__exit__()
    nodes[1] = start_node(folder, 1, port)
    if nodes[1].report["clean"] or nodes[1].report["items"] < shares[1]:
        fail("the node that came back: %s" % nodes[1].report)
    key = next(k for k in KEYS if owner[k] == 1)
    until(lambda: client.get(key) == value_of(key), "the client does not find the node again")
    check(client, owner, None)
    client.close()
    print("%s: %s keys of the nodes, %d were away and came back" %
          (make.__name__, shares, shares[1]))


def main():
    with Folder() as folder:
        nodes = []
        try:
            nodes = [start_node(folder, n) for n in range(NODES)]
            check_one(Ketama, folder, nodes)
            for node in nodes:
                with node.dial() as c:
                    assert c.ask(b"flush_all\r\n") == b"OK"
            if not NUTCRACKER:
                skip("nutcracker is not installed")
            check_one(Proxy, folder, nodes)
            for node in nodes:
                node.stop()
        finally:
            for node in nodes:
                node.__exit__()


main()
