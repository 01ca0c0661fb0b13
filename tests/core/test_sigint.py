"""^C is deferred, raised at a check, and restored afterwards."""

import os
import signal

import pytest

from core.runtime import sigint


def test_deferred_sigint_is_raised_at_the_check():
    with sigint.defer_sigint() as heed:
        heed()
        # Twice, because runners such as make forward it.
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            heed()


def test_deferred_sigint_without_check_is_dropped():
    before = signal.getsignal(signal.SIGINT)
    with sigint.defer_sigint():
        os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
