"""Connections to the telemetry port that say nothing, half a handshake, all of it, nonsense, or a message that stops in the middle; and
slow clients of the query API."""
import selectors
import socket
import threading
import time

# ZMTP 3.0 without keys: 64 bytes, then the command READY of a DEALER.
GREETING = (b"\xff\0\0\0\0\0\0\0\1\x7f\3\0" + b"NULL").ljust(64, b"\0")
READY = b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x06DEALER".replace(b"\x19", bytes([6 + 12 + 4 + 6]))
SAYS = {"nothing": b"", "half a handshake": GREETING[:20], "a handshake": GREETING + READY, "nonsense": b"GET / HTTP/1.1\r\n\r\n" * 4}
# As long as the service takes, but for its end.
MESSAGE_BYTES = 4 << 20
HALF_A_MESSAGE = GREETING + READY + b"\2" + MESSAGE_BYTES.to_bytes(8, "big") + bytes(MESSAGE_BYTES - 1)


class Crowd(threading.Thread):
    """Keeps `count` connections open, and opens again what is closed by the other side, at most so many a second."""

    def __init__(self, port, count, address="127.0.0.1", opened_per_s=2000, kinds=tuple(SAYS.values())):
        super().__init__(daemon=True)
        self._kinds = kinds
        self._port, self._count, self._from, self._per_s = port, count, address, opened_per_s
        self._end = threading.Event()
        self._selector = selectors.DefaultSelector()
        self._open = 0
        self.opened = self.closed_by_service = self.refused = 0

    def run(self):
        allowance, before = 0.0, time.monotonic()
        while not self._end.is_set():
            now = time.monotonic()
            allowance, before = min(self._per_s, allowance + (now - before) * self._per_s), now
            while self._open < self._count and allowance >= 1 and not self._end.is_set():
                allowance -= 1
                self._add(self._kinds[self.opened % len(self._kinds)])
            for key, _ in self._selector.select(0.05):
                self._read(key.fileobj)
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()
        self._selector.close()

    def _add(self, words):
        peer = socket.socket()
        try:
            peer.settimeout(0.2)
            # An address of its own has as many ports as one for all.
            peer.bind((self._from, 0))
            peer.connect(("127.0.0.1", self._port))
            if words:
                peer.sendall(words)
        except OSError:
            self.refused += 1
            peer.close()
            return
        peer.setblocking(False)
        self._selector.register(peer, selectors.EVENT_READ)
        self._open += 1
        self.opened += 1

    def _read(self, peer):
        try:
            if peer.recv(4096):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self._selector.unregister(peer)
        peer.close()
        self._open -= 1
        self.closed_by_service += 1

    @property
    def open(self):
        return self._open

    def end(self):
        self._end.set()
        self.join()


REQUESTS = (
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + b"y" * 100_000,
    b"POST /v1/tune HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + b"ffff\r\n" + b"z" * 100_000,
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nRange: bytes=" + b",".join(b"%d-" % i for i in range(100)) + b"\r\n\r\n",
)


class SlowClients(threading.Thread):
    """Clients of the query API that send 20 bytes a second, and one in three takes its answer as slowly."""

    def __init__(self, host, port, count):
        super().__init__(daemon=True)
        self._address, self._count = (host, port), count
        self._end = threading.Event()
        self.connected = 0

    def run(self):
        clients = []
        while not self._end.wait(0.1):
            while len(clients) < self._count:
                try:
                    peer = socket.create_connection(self._address, 1.0)
                except OSError:
                    break
                peer.setblocking(False)
                request = REQUESTS[self.connected % len(REQUESTS)]
                clients.append([peer, request, 0])
                self.connected += 1
            clients = [c for c in clients if self._go_on(c)]
        for client in clients:
            client[0].close()

    @staticmethod
    def _go_on(client):
        peer, request, sent = client
        whole = request.endswith(b"\r\n\r\n")
        try:
            if sent < len(request):
                client[2] += peer.send(request[sent:sent + (len(request) if whole else 2)])
            if whole and client[2] == len(request):
                return len(peer.recv(2)) > 0
            return True
        except BlockingIOError:
            return True
        except OSError:
            peer.close()
            return False

    def end(self):
        self._end.set()
        self.join()
