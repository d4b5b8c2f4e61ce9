"""Collectors killed at random moments: seconds of it, or as long as LITE_KILL_SECONDS says."""

import os

import pytest
from helpers.killed import outcome

pytestmark = pytest.mark.processes

killed_collectors = pytest.importorskip("helpers.data.killed_collectors", reason="needs the gym extra")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="collectors are forked")
def test_no_frame_is_lost_and_none_doubled(tmp_path):
    assert "frames acknowledged" in outcome(killed_collectors.__file__, tmp_path)
