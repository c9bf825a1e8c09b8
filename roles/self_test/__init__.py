"""The project's own tests and rules, behind the front door."""
