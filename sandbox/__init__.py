"""Stand-ins that make a whole Proxmox host on a plain Debian machine. Everything they show is SIMULATED."""
