#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Send the same bytes to memcached and to fathom, and compare the answers. See kv_memcached_test.sh."""
import json
import re
import socket
import subprocess
import sys
import time

from kv_fixture import free_port

# Each is sent on a connection of its own, to an empty cache. A number that changes is masked.
CASES = [
    b"get\r\n",
    b"get \r\n",
    b"gets\r\n",
    b"get a\r\n",
    b"get a b c\r\n",
    b"  get a\r\n",
    b"get  a   b\r\n",
    b"get a \r\n",
    b"get a\n",
    b"\r\n",
    b"\n",
    b" \r\n",
    b"foo\r\n",
    b"GET a\r\n",
    b"set a 0 0 3\r\nabc\r\nget a\r\ngets a\r\n",
    b"set a 5 0 0\r\n\r\nget a\r\n",
    b"set a 0 0 3\nabc\r\nget a\r\n",
    b"set a 0 0 3\r\nabcd\r\nget a\r\n",
    b"set a 0 0 3\r\nabcdefgh\r\nget a\r\n",
    b"set a 0 0 3\r\nab\r\nget a\r\n",
    b"set a 0 0 3\r\nabc\nget a\r\nfoo\r\n",
    b"set a 0 0 3 noreply\r\nabcdefg\r\nget a\r\n",
    b"set a 0 0 3 noreply\r\nabc\r\nget a\r\n",
    b"set a 0 0 3 norepl\r\nabc\r\nget a\r\n",
    b"set a 0 0 3 x y\r\nabc\r\nget a\r\n",
    b"set a 0 0\r\nget a\r\n",
    b"set a 0\r\n",
    b"set a\r\n",
    b"set\r\n",
    b"set a 0 0 -1\r\nget a\r\n",
    b"set a 0 0 -1 noreply\r\nget a\r\n",
    b"set a 0 0 -1\r\nabc\r\nget a\r\n",
    b"set a 4294967295 0 3\r\nabc\r\nget a\r\n",
    b"set a 0 0 x\r\nabc\r\n",
    b"set a 0 0 3x\r\nabc\r\n",
    b"set a 0 -1 3\r\nabc\r\nget a\r\n",
    b"set a 0 0 2147483647\r\nget a\r\n",
    b"set a 0 0 2147483646\r\nget a\r\n",
    b"set a 0 0 99999999999999999999999\r\nget a\r\n",
    b"set a 0 0 3\r\nabc\r\nset a 0 0 2000000\r\n"+b"x"*2000000+b"\r\nget a\r\n",
    b"set a 0 0 3\r\nabc\r\nset a 0 0 2000000 noreply\r\n"+b"x"*2000000+b"\r\nget a\r\n",
    b"set a 0 0 3\r\nabc\r\nadd a 0 0 2000000\r\n"+b"x"*2000000+b"\r\nget a\r\n",
    b"set a 0 0 3\r\nabc\r\nappend a 0 0 2000000\r\n"+b"x"*2000000+b"\r\nget a\r\n",
    b"set a 0 0 3\r\nabc\r\nms a 2000000\r\n"+b"x"*2000000+b"\r\nget a\r\n",
    b"set a 0 0 3\r\nabc\r\nms a 2000000 q\r\n"+b"x"*2000000+b"\r\nget a\r\n",
    b"get "+b"k"*250+b"\r\n",
    b"get "+b"k"*251+b"\r\n",
    b"set "+b"k"*250+b" 0 0 1\r\na\r\nget "+b"k"*250+b"\r\n",
    b"incr "+b"k"*251+b" 1\r\n",
    b"delete "+b"k"*251+b"\r\n",
    b"touch "+b"k"*251+b" 1\r\n",
    b"gat 0 "+b"k"*251+b"\r\n",
    b"mg "+b"k"*251+b"\r\n",
    b"md "+b"k"*251+b"\r\n",
    b"ma "+b"k"*251+b"\r\n",
    b"me "+b"k"*251+b"\r\n",
    b"set a 0 0 1\r\na\r\nget "+b" ".join(b"key%d"%i for i in range(30))+b" a\r\n",
    b"set a 0 0 1\r\na\r\nget "+b" ".join(b"key%d"%i for i in range(5000))+b" a\r\n",
    b"set a 0 0 1\r\na\r\ngets "+b" ".join(b"a" for i in range(5000))+b" a\r\n",
    b"set a 0 0 1\r\na\r\n"+b"get a\r\n"*2000,
    b"".join(b"set k%d 0 0 4\r\n%04d\r\nget k%d\r\n"%(i,i,i) for i in range(2000)),
    b"x"*1000+b"\r\n",
    b"get"+b" "*3000+b"a\r\n",
    b"add a 0 0 1\r\na\r\nadd a 0 0 1\r\nb\r\nget a\r\n",
    b"replace a 0 0 1\r\na\r\nset a 0 0 1\r\nx\r\nreplace a 7 0 1\r\nb\r\nget a\r\n",
    b"append a 0 0 1\r\na\r\nset a 3 0 1\r\nx\r\nappend a 7 0 1\r\nb\r\nget a\r\nprepend a 9 0 2\r\n12\r\nget a\r\n",
    b"prepend a 0 0 1\r\na\r\n",
    b"cas a 0 0 1 1\r\na\r\n",
    b"cas a 0 0 1\r\na\r\n",
    b"cas a 0 0 1 0\r\na\r\n",
    b"set a 0 0 1\r\na\r\ncas a 0 0 1 0\r\na\r\n",
    b"set a 0 0 1\r\na\r\ncas a 0 0 1 99999999999\r\nb\r\nget a\r\n",
    b"cas a 0 0 1 1 noreply\r\na\r\n",
    b"cas a 0 0 1 1 foo\r\na\r\n",
    b"incr a 1\r\nset a 0 0 1\r\n9\r\nincr a 1\r\nget a\r\ndecr a 1\r\nget a\r\ndecr a 100\r\nget a\r\n",
    b"set a 0 0 3\r\nabc\r\nincr a 1\r\ndecr a 1\r\n",
    b"set a 0 0 20\r\n18446744073709551615\r\nincr a 18446744073709551615\r\nget a\r\n",
    b"set a 0 0 21\r\n184467440737095516150\r\nincr a 1\r\nget a\r\n",
    b"set a 0 0 2\r\n5x\r\nincr a 1\r\nget a\r\n",
    b"set a 0 0 2\r\n-5\r\nincr a 1\r\nget a\r\n",
    b"set a 0 0 0\r\n\r\nincr a 1\r\nget a\r\n",
    b"set a 0 0 1\r\n5\r\nincr a -1\r\nincr a x\r\nincr a\r\nincr\r\nincr a 1 noreply\r\nget a\r\nincr a 1 foo\r\nincr a 1 2 3\r\n",
    b"set a 0 0 2\r\n10\r\ndecr a 1\r\nget a\r\nincr a 1\r\nget a\r\n",
    b"delete a\r\nset a 0 0 1\r\na\r\ndelete a\r\nget a\r\n",
    b"set a 0 0 1\r\na\r\ndelete a 0\r\nget a\r\n",
    b"set a 0 0 1\r\na\r\ndelete a 5\r\nget a\r\n",
    b"set a 0 0 1\r\na\r\ndelete a noreply\r\nget a\r\n",
    b"set a 0 0 1\r\na\r\ndelete a 0 noreply\r\nget a\r\n",
    b"set a 0 0 1\r\na\r\ndelete a 0 foo\r\nget a\r\n",
    b"set a 0 0 1\r\na\r\ndelete a 1 2 3\r\nget a\r\n",
    b"delete\r\n",
    b"delete a foo\r\n",
    b"touch a 10\r\nset a 0 0 1\r\na\r\ntouch a 10\r\ntouch a -1\r\nget a\r\n",
    b"touch a\r\ntouch\r\ntouch a x\r\ntouch a 10 noreply\r\ntouch a 1 foo\r\ntouch a 1 2 3\r\n",
    b"gat 10 a b c a\r\n",
    b"flush_all\r\nflush_all noreply\r\nflush_all 0\r\nflush_all x\r\nflush_all 0 noreply\r\nflush_all 0 0 0 0\r\nflush_all -1\r\nflush_all -5 noreply\r\n",
    b"verbosity\r\nverbosity 1\r\nverbosity 0 noreply\r\nverbosity x\r\nverbosity 1 2 3\r\nverbosity noreply\r\n",
    b"quit\r\n",
    b"quit foo\r\n",
    b"mg\r\n",
    b"mg a\r\n",
    b"mg a v\r\n",
    b"mg a v k q O1\r\n",
    b"mg a q\r\n",
    b"mg a k O9\r\n",
    b"set a 5 0 3\r\nabc\r\nmg a\r\nmg a v\r\nmg a s v k f t O123\r\nmg a q\r\nmg a q v\r\nmg a f s c\r\nmg a h\r\n",
    b"set a 5 0 3\r\nabc\r\nmg a h l t\r\nmg a h\r\nget a\r\nmg a h\r\n",
    b"set a 5 0 3\r\nabc\r\nmg a x\r\nmg a v v\r\nmg a Tx v\r\nmg a T\r\nmg a O\r\nmg a Z\r\n",
    b"set a 5 0 3\r\nabc\r\nmg a v E\r\nmg a W\r\nmg a S5\r\nmg a I\r\nmg a M\r\nmg a F5\r\nmg a C1\r\nmg a D5 J5\r\n",
    b"mg a O"+b"x"*31+b" k v\r\nset a 0 0 1\r\na\r\nmg a O"+b"x"*32+b" k\r\nmg a O"+b"x"*33+b" k\r\nmg a O"+b"x"*100+b" k\r\n",
    b"ms\r\n",
    b"ms a\r\n",
    b"ms a 3\r\nabc\r\nget a\r\n",
    b"ms a 3 T0 F5\r\nabc\r\nmg a v f t\r\n",
    b"ms a 3 q\r\nabc\r\nget a\r\n",
    b"ms a 3 q k O5\r\nabcd\r\nget a\r\n",
    b"ms a 3 k O5 c b\r\nabc\r\nget a\r\n",
    b"ms YQ== 3 k O5 c b\r\nabc\r\nget a\r\n",
    b"ms a x\r\nabc\r\nget a\r\n",
    b"ms a -1\r\nabc\r\nget a\r\n",
    b"ms a 3x\r\nabc\r\nget a\r\n",
    b"ms a 3 foo\r\nabc\r\nget a\r\n",
    b"ms a 3 Z\r\nabc\r\nget a\r\n",
    b"ms a 3 Tx\r\nabc\r\nget a\r\n",
    b"ms a 3 Fx\r\nabc\r\nget a\r\n",
    b"ms a 3 F-1\r\nabc\r\nget a\r\n",
    b"ms a 3 T0 T0\r\nabc\r\nget a\r\n",
    b"ms a 2147483647\r\nget a\r\n",
    b"ms a S3\r\nabc\r\nget a\r\n",
    b"ms a 3 ME\r\nabc\r\nms a 3 ME\r\nabc\r\nms a 3 ME q k\r\nabc\r\nget a\r\n",
    b"ms a 3 MR\r\nabc\r\nms a 3 MA\r\nabc\r\nms a 3 MP\r\nabc\r\nms a 3 MS\r\nabc\r\nms a 3 MA\r\ndef\r\nms a 3 MP\r\nghi\r\nms a 1 MR F3\r\nz\r\nget a\r\n",
    b"ms a 3 MA N0\r\nabc\r\nget a\r\n",
    b"ms a 3 MA N100\r\nabc\r\nget a\r\n",
    b"ms a 3 Mx\r\nabc\r\nms a 3 M\r\nabc\r\nms a 3 MSS\r\nabc\r\nms a 3 Mset\r\nabc\r\nms a 3 Madd\r\nabc\r\n",
    b"ms a 3 C1\r\nabc\r\nms a 3\r\nabc\r\nms a 3 C1\r\nabc\r\nms a 3 C1 q k\r\nabc\r\nms a 3 Cx\r\nabc\r\nms a 3 C0\r\nabc\r\n",
    b"ms a 3 s f v\r\nabc\r\n",
    b"ms a 3 h l t\r\nabc\r\n",
    b"set a 0 0 1\r\na\r\nmd a q\r\nget a\r\n",
    b"set a 0 0 1\r\na\r\nmd YQ== b k\r\nget a\r\n",
    b"set a 0 0 1\r\na\r\nmd a C1\r\nmd a C1 q\r\nmd a Cx\r\nmd a v\r\nmd a Z\r\nget a\r\n",
    b"set a 0 0 1\r\na\r\nmd a x\r\nget a\r\n",
    b"ma\r\nma a\r\nma a q\r\nset a 0 0 1\r\n5\r\nma a\r\nma a v\r\nma a D3 v\r\nma a MD D3 v\r\nma a MI v t c k O5 \r\nma a M+ v\r\nma a M- v\r\nma a Mincr v\r\nma a Mdecr v\r\nma a Mx\r\nma a q\r\nma a q v\r\nget a\r\n",
    b"set a 0 0 1\r\nx\r\nma a\r\nma a q\r\nma a v\r\n",
    b"ma a N0 J13 v\r\nma a N0 J13 v\r\nget a\r\n",
    b"ma a N100 v t\r\nma a N0 J13 v\r\nget a\r\n",
    b"ma a N0 Jx\r\nma a Nx\r\nma a Dx\r\n",
    b"set a 0 0 1\r\n5\r\nma a T100 v t\r\nma a C1\r\nma a C1 q\r\nma YQ== b k v\r\nma a f s h l v\r\n",
    b"mx a\r\n",
    b"m\r\n",
    b"mget a\r\n",
    b"gett a\r\n",
    b"g\r\n",
    b"GET / HTTP/1.1\r\nset a 0 0 1\r\nx\r\n",
    b"mn\r\nPOST /x HTTP/1.1\r\nHost: a\r\n\r\nset a 0 0 1\r\nx\r\n",
    b"HTTP/1.1\r\n",
    b"GET HTTP/1.1 a\r\n",
    b"get / HTTP/1.1\r\n",
    b"stats foo\r\n",
    b"stats cachedump\r\n",
    b"stats cachedump 1\r\n",
    b"stats cachedump x 0\r\n",
    b"stats cachedump 1 x\r\n",
    b"stats cachedump 2 0\r\n",
    b"stats reset\r\n",
    b"stats reset foo\r\n",
    b"stats sizes foo\r\n",
    b"shutdown\r\n",
    b"misbehave\r\n",
    b"debugtime\r\n",
    b"set a 0 0 5\r\na\x00b\x0dc\r\nget a\r\n",
    b"set a\tb 0 0 1\r\na\r\nget a\tb\r\n",
    b"set \x01\x02 0 0 1\r\na\r\nget \x01\x02\r\n",
    b"set \xff\xfe 0 0 1\r\na\r\nget \xff\xfe\r\n",
    b"get a\r\r\n",
    b"bogus\rget a\r\n",
    b"set a 0 1 1\r\na\r\nget a\r\n",
    b"set a 00 00 01\r\na\r\nget a\r\n",
    # Tokens and stale items.
    b"mg a N30\r\nmg a N30\r\nmg a\r\nmg a v\r\nget a\r\n",
    b"mg a v N30 t s f h l c k O7\r\nmg a v N30 t s f l c k O7\r\nmg a h\r\n",
    b"mg a N30 T60 t\r\nmg a t\r\nmg b T60 N30 t\r\nmg b t\r\n",
    b"mg a N0 v t\r\nms a 3\r\nabc\r\nmg a v N0\r\n",
    b"mg a N-1 v\r\nget a\r\n",
    b"mg a Nx\r\nmg a N\r\nmg a R\r\nmg a Rx\r\nmg a R-1\r\n",
    b"mg YQ== b N30 v\r\nmg YQ== b N30 v\r\nmg a v\r\n",
    b"mg a N30 q\r\nmg a N30 q\r\nmg b q\r\n",
    b"mg a N30 q v\r\nmg a N30 q v\r\n",
    b"set a 0 100 3\r\nabc\r\nmg a R30\r\nmg a R99 v\r\nmg a R200 v\r\nmg a R200 v\r\nmg a v\r\n",
    b"set a 0 0 3\r\nabc\r\nmg a R30\r\nmg a R0\r\nmg a R-1\r\nmg a v\r\n",
    b"set a 0 100 3\r\nabc\r\nmg a R0\r\nmg a R-5\r\nmg a R200 q\r\nmg a R200 q\r\n",
    b"set a 0 100 3\r\nabc\r\nmg a T20 R30 t\r\nmg a T20 R30 t\r\nmg a T0 R30\r\n",
    b"mg a R30\r\nmg a R30 N20 v\r\nmg a R30 N20 v\r\n",
    b"set a 7 0 3\r\nabc\r\nmd a I\r\nmg a v\r\nmg a v\r\nmg a v f t\r\nget a\r\nms a 2\r\nxy\r\nmg a v\r\n",
    b"set a 7 0 3\r\nabc\r\nmd a I T30\r\nmg a t\r\nmg a t v\r\nmd a I\r\nmg a t\r\n",
    b"set a 7 50 3\r\nabc\r\nmd a I\r\nmg a t\r\nmd a I T0\r\nmg a t h\r\nmd a\r\nmg a\r\n",
    b"md a I\r\nmd a I q\r\nset a 0 0 1\r\nx\r\nmd a I C1\r\nmd a I q k O3\r\nmg a\r\nmd a I k O3\r\n",
    b"set a 0 0 3\r\nabc\r\nms a 2 I\r\nxy\r\nmg a v\r\n",
    b"set a 0 50 3\r\nabc\r\nms a 2 C1 I T9 F3\r\nxy\r\nmg a v t f\r\nmg a v t f\r\nms a 1 C2 I\r\nz\r\nmg a v\r\n",
    b"set a 0 0 3\r\nabc\r\nms a 2 C99999999999 I\r\nxy\r\nmg a v\r\n",
    b"ms a 2 C1 I\r\nxy\r\nms a 2 I ME\r\nxy\r\nms a 2 C1 I MR\r\nab\r\nmg a v\r\n",
    b"set a 0 0 3\r\nabc\r\nms a 2 C1 I MA\r\nxy\r\nms a 2 I MA\r\nxy\r\nmg a v\r\n",
    b"ms a 2 C1 ME\r\nxy\r\nms a 2 C1 ME\r\nxy\r\nmg a v\r\n",
    b"set a 0 0 3\r\nabc\r\nmd a I\r\nappend a 0 0 1\r\nd\r\nmg a v\r\nmg a v\r\n",
    b"set a 0 0 2\r\n10\r\nmd a I\r\ndecr a 1\r\nmg a v\r\nincr a 1000\r\nmg a v\r\n",
    b"set a 0 0 2\r\n10\r\nmd a I\r\ntouch a 50\r\ngat 60 a\r\nmg a T70 v t\r\nmg a T70 v t\r\n",
    b"set a 0 0 1\r\n5\r\nmd a I\r\nma a v\r\nma a T30 v t\r\nmg a v\r\n",
    b"set a 0 0 1\r\n5\r\nmg a h\r\nmg a h T30\r\nmg a h T30\r\ntouch a 9\r\nmg a h\r\n",
    b"set a 0 0 1\r\n5\r\nmd a I\r\nmg a h l v\r\nmg a h l v\r\n",
    b"ma a I\r\nset a 0 0 1\r\n5\r\nma a I v\r\nma a R30 v\r\nmd a R30\r\nms a 1 R30\r\nx\r\nms a 1 N30\r\nx\r\nmd a N30\r\n",
    # Numbers.
    b"set a 0 0 4\r\n0009\r\nincr a 1\r\nget a\r\ndecr a 4\r\nget a\r\n",
    b"set a 0 0 3\r\n  5\r\nincr a 1\r\nget a\r\n",
    b"set a 0 0 4\r\n\t\r\n5\r\nincr a 1\r\nget a\r\n",
    b"set a 0 0 5\r\n5 abc\r\nincr a 1\r\nget a\r\n",
    b"set a 0 0 5\r\n5\tabc\r\ndecr a 1\r\nget a\r\n",
    b"set a 0 0 2\r\n+5\r\nincr a 1\r\nget a\r\n",
    # No value of one blank: memcached reads on behind it, into what another item has left there.
    b"set a 0 0 1\r\n+\r\nincr a 1\r\nset a 0 0 2\r\n 5\r\nincr a 1\r\nget a\r\n",
    b"set a 0 0 30\r\n5"+b" "*29+b"\r\nincr a 1\r\nget a\r\nincr a 100\r\nget a\r\n",
    b"set a 0 0 40\r\n"+b"0"*39+b"7\r\nincr a 1\r\nget a\r\n",
    b"set a 0 0 20\r\n18446744073709551615\r\nincr a 1\r\nget a\r\nincr a 18446744073709551616\r\nset a 0 0 20\r\n18446744073709551616\r\nincr a 1\r\n",
    b"set a 0 0 3\r\n999\r\nincr a 1\r\nget a\r\ndecr a 999\r\nget a\r\nincr a 7\r\nget a\r\n",
    b"set a 5 60 2\r\n10\r\nincr a 90\r\nmg a f t s\r\n",
]


def talk(address, data):
    """The answers to data, up to that of a no-op behind it, or to the end of the connection."""
    got = b""
    with socket.create_connection(address, 20) as s:
        try:
            s.sendall(data + b"mn\r\n")
            while not got.endswith(b"MN\r\n"):
                more = s.recv(65536)
                if not more:
                    return got + b"<closed>"
                got += more
        except (BrokenPipeError, ConnectionResetError):
            got += b"<closed>"
    return got


def mask(text):
    text = re.sub(rb"(VALUE \S+ \d+ \d+) \d+", rb"\1 CAS", text)
    return re.sub(rb" c\d+", b" cN", text)


def wait_for(address):
    for _ in range(200):
        try:
            socket.create_connection(address, 1).close()
            return
        except OSError:
            time.sleep(0.05)
    sys.exit("memcached does not listen")


def compare(theirs, ours):
    wrong = 0
    for data in CASES:
        answers = []
        for address in (theirs, ours):
            talk(address, b"flush_all\r\n")
            answers.append(mask(talk(address, data)))
        if answers[0] != answers[1]:
            wrong += 1
            print("sent", data[:200], "memcached", answers[0][:300], "fathom", answers[1][:300], sep="\n  ")
    print("%d of %d answers differ" % (wrong, len(CASES)))
    return wrong


def main():
    port = free_port()
    theirs = subprocess.Popen(
        ["memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-t", "1"])
    ours = None
    try:
        ours = subprocess.Popen(
            [sys.argv[1], "kv", "serve", "--json", "--listen", "127.0.0.1:0", "--flash", "none"],
            stdout=subprocess.PIPE)
        report = json.loads(ours.stdout.readline())
        wait_for(("127.0.0.1", port))
        wrong = compare(("127.0.0.1", port), ("127.0.0.1", report["port"]))
    finally:
        theirs.terminate()
        if ours:
            ours.terminate()
        theirs.wait(20)
    sys.exit(1 if wrong or ours.wait(20) else 0)


main()
