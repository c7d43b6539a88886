"""Connections from loopback of this machine to an address inside a network namespace, where a browser cannot go."""
import ctypes
import os
import socket
import threading

CLONE_NEWNET = 0x40000000
CONNECTIONS_MAX = 64  # a browser opens six
_libc = ctypes.CDLL(None, use_errno=True)


class Forward:
    """Listens on 127.0.0.1:`port` (0: any). A socket belongs to the namespace in which it was made, so one thread enters it and
    makes them all. end() ends it; threads of open connections end with them."""

    def __init__(self, port, namespace, address):
        self._address = address
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = self._listener.getsockname()[1]
        self._slots = threading.BoundedSemaphore(CONNECTIONS_MAX)
        self._namespace = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
        threading.Thread(target=self._accept, daemon=True).start()

    def end(self):
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it has ended
        self._listener.close()

    def _accept(self):
        entered = _libc.setns(self._namespace, CLONE_NEWNET) == 0
        os.close(self._namespace)
        while entered:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if not self._slots.acquire(blocking=False):
                near.close()
                continue
            try:
                far = socket.create_connection(self._address, timeout=10)
                far.settimeout(None)
            except OSError:
                near.close()
                self._slots.release()
                continue
            threading.Thread(target=self._serve, args=(near, far), daemon=True).start()

    def _serve(self, near, far):
        try:
            back = threading.Thread(target=_copy, args=(far, near), daemon=True)
            back.start()
            _copy(near, far)
            back.join()
        finally:
            near.close()
            far.close()
            self._slots.release()


def _copy(source, sink):
    """Until the source has said everything; what remains is the other direction's business."""
    try:
        while True:
            data = source.recv(65536)
            if not data:
                break
            sink.sendall(data)
    except OSError:
        pass
    try:
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass
