"""The sandbox behind the front door: made for a simulated inventory, and only by `up` and `sandbox.*`."""
