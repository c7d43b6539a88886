#!/usr/bin/env python3
"""Who speaks to a port what nobody should, until it is killed: over plain TCP; ccld-stranger does it over ZeroMQ.

  bytes        random bytes on ever new connections
  connections  200 connections that say nothing
  http         requests that must be refused: endless headers, bodies without an end, bytes one by one, foreign origins, odd paths
  impostor     listens there, and answers everybody with random bytes
"""
import argparse
import random
import selectors
import socket
import sys
import time

CONNECTIONS = 200
PAUSE_S = 0.01  # between two tries, so that what is measured is the service and not this program


def connect(address):
    return socket.create_connection(address, timeout=1)


def send_bytes(address, rng):
    while True:
        try:
            with connect(address) as connection:
                for _ in range(rng.randrange(1, 6)):
                    connection.sendall(rng.randbytes(rng.randrange(1, 4096)))
        except OSError:
            pass  # refused, or ended by the other side, as it should
        time.sleep(PAUSE_S)


def hold_connections(address, _):
    held = []
    while True:
        if len(held) < CONNECTIONS:
            try:
                held.append(connect(address))
                continue
            except OSError:
                pass
        time.sleep(PAUSE_S * 10)


HTTP = (
    lambda rng: b"GET /" + rng.randbytes(300) + b" HTTP/1.1\r\n\r\n",
    lambda rng: b"GET /v1/status HTTP/1.1\r\n" + b"".join(b"x-%d: %s\r\n" % (n, b"y" * 1000) for n in range(100)),
    lambda rng: b"POST /v1/tune HTTP/1.1\r\nHost: elsewhere.example\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
    lambda rng: b"POST /v1/tune HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + b"ffff\r\n" + b"z" * 65535 + b"\r\n",
    lambda rng: b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nRange: bytes=" + b",".join(b"0-%d" % n for n in range(100)) + b"\r\n\r\n",
    lambda rng: b"GET /v1/incidents?limit=%d&after=%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % (rng.randrange(-5, 10**12), rng.randrange(-5, 10**12)),
    lambda rng: rng.randbytes(2000),
)


def ask(address, rng):
    while True:
        try:
            with connect(address) as connection:
                connection.sendall(rng.choice(HTTP)(rng))
                if rng.random() < 0.5:
                    connection.recv(65536)
        except OSError:
            pass
        time.sleep(PAUSE_S)


def answer(address, rng):
    listener = socket.create_server(address)
    listener.setblocking(False)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    print("listening", flush=True)
    while True:
        for key, _ in selector.select():
            try:
                if key.fileobj is listener:
                    connection, _ = listener.accept()
                    connection.setblocking(False)
                    selector.register(connection, selectors.EVENT_READ)
                    connection.send(rng.randbytes(rng.randrange(1, 200)))
                elif key.fileobj.recv(65536):
                    key.fileobj.send(rng.randbytes(rng.randrange(1, 2000)))
                else:
                    raise ConnectionResetError
            except OSError:
                if key.fileobj is not listener:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()


WHAT = {"bytes": send_bytes, "connections": hold_connections, "http": ask, "impostor": answer}


def main():
    parser = argparse.ArgumentParser(prog="stranger.py", description=__doc__.split("\n\n")[0])
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("address", help="address:port")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    host, _, port = arguments.address.rpartition(":")
    WHAT[arguments.what]((host, int(port)), random.Random(arguments.seed))


if __name__ == "__main__":
    sys.exit(main())
