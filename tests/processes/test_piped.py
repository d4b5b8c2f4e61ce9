"""A process at the other end of a pipe; tests of environments and collectors fail and kill some."""

import signal

import pytest
from helpers.cases import raises
from helpers.piped import answer, echo, ignore, leave

from lite._processes.piped import PipedProcess


def test_a_process_answers_and_ends():
    worker = PipedProcess(answer, 10)
    worker.connection.send(1)
    assert worker.connection.recv() == 11
    worker.connection.send(None)
    assert worker.how_it_ended(60).endswith(
        "exit code 0, as after an interrupt (Ctrl-C, a notebook's stop button)"
    )
    worker.end(60)
    assert worker.process.exitcode == 0
    assert worker.connection.closed


def test_an_answer_that_nobody_waited_for_is_not_the_next_ones(monkeypatch):
    worker = PipedProcess(echo)
    assert worker.answered() == b"kbegun"
    worker.ask(b"s1")  # as where an interrupt comes before its answer
    worker.ask(b"s2")
    assert worker.answered() == b"s2"

    def late(*_):
        raise TimeoutError  # an OSError, as those of pipes

    for method, call in (("recv_bytes", worker.answered), ("send_bytes", lambda: worker.ask(b"s3"))):
        with monkeypatch.context() as patch:
            patch.setattr(type(worker.connection), method, late)
            raises(TimeoutError, "", call)
    worker.ask(b"s4")
    assert worker.answered() == b"s4"
    worker.connection.send_bytes(b"")
    worker.end(60)
    raises(EOFError, "", worker.answered)
    worker.ask(b"s5")


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals")
def test_one_that_left_closes_the_pipe_and_one_that_goes_on_is_killed():
    gone, busy = PipedProcess(leave), PipedProcess(ignore)
    raises(EOFError, "", gone.connection.recv)
    assert gone.how_it_ended(60) == "its process ended with exit code 3"
    busy.end(0)
    assert busy.process.exitcode == -signal.SIGKILL
