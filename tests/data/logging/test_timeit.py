import pytest

from lite.data import timeit


@pytest.fixture(autouse=True)
def times(monkeypatch):
    """Seconds go by one for each look at the clock."""
    ticks = iter(range(1000))
    monkeypatch.setattr("lite.data.logging.timeit.time.perf_counter", lambda: float(next(ticks)))
    monkeypatch.setattr(timeit, "_times", {})
    monkeypatch.setattr(timeit, "_printed", 0)


def test_contexts_and_decorators():
    @timeit("called")
    def called(x):
        """Twice x."""
        return 2 * x

    with timeit("within") as timer:
        assert timer.elapsed() == 1
    assert [called(3), called(4)] == [6, 8]
    assert called.__doc__ == "Twice x."
    assert timeit.todict() == {"within": 2, "called": 1}
    assert timeit.todict(percall=False, prefix="time") == {"time/within": 2, "time/called": 2}
    assert timeit("alone").start().elapsed() == 1
    timeit.erase()
    assert timeit.todict(percall=False) == timeit.todict() == {"within": 0, "called": 0}
    with timeit("within"):
        pass
    assert timeit.todict()["within"] == timeit.todict(percall=False)["within"]


def test_prints(capsys):
    for name in ("b", "a", "a"):
        with timeit(name):
            pass
    wanted = [
        "x -- a took 1000.0000 msec (total =  2.0000 sec since last reset).",
        "x -- b took 1000.0000 msec (total =  1.0000 sec since last reset).",
    ]
    assert timeit.print("x").splitlines() == wanted
    assert capsys.readouterr().out.splitlines() == wanted
    for _ in range(6):
        timeit.printevery(2, 6, erase=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert "total =  2.0000" in lines[0]
    assert "total =  0.0000" in lines[2]
    with pytest.raises(ValueError, match="num_prints must be from 1 on, got 0"):
        timeit.printevery(0, 5)


def test_reset_is_erase() -> None:
    with timeit("step"):
        pass
    timeit.reset()
    assert timeit.todict() == {"step": 0.0}
