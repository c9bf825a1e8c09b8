"""The engine as a systemd unit in the container, run from a named profile."""
