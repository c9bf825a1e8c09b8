"""What holds for all tests."""

import signal

# A shell gives what it starts in the background no Ctrl-C, and so on to all that is started from there; tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
