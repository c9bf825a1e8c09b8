"""The agent: small stdlib-only modules (Python >= 3.8), sent to a machine as one program and never stored there."""
