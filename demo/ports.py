"""Finding a port to listen on."""

import socket

HOST = "127.0.0.1"


def free_port(preferred: int = 0) -> int:
    """Return the preferred loopback port, or any other if it is taken."""
    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError("no free port on the loopback interface")
