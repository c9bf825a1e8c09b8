"""What is done to whole fleets rather than by one role: up, exec, probe, journal."""
