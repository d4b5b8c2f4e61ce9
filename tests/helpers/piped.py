"""What processes at the other end of a pipe run in tests."""

import os
import signal
import threading


def answer(connection, start):
    for number in iter(connection.recv, None):
        connection.send(start + number)


def echo(connection):
    connection.send_bytes(b"k" + bytes(8) + b"begun")
    while message := connection.recv_bytes():
        connection.send_bytes(message)


def ignore(connection):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Event().wait()


def leave(connection):
    os._exit(3)
