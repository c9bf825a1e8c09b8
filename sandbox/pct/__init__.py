"""A stand-in for Proxmox's `pct` over real LXC containers, held to the real one's texts and exit codes."""
