"""`end_with_parent`; `tests/envs/test_parallel_env.py` kills parents."""

import threading

from lite._processes.orphans import end_with_parent


def test_a_process_without_a_parent_of_its_kind_goes_on():
    before = threading.active_count()
    end_with_parent()
    assert threading.active_count() == before
