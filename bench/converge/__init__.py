"""The converge benchmark: one desired state, written once a tool, against real sshd hosts on this machine."""
