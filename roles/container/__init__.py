"""The LXC container that holds the engine: made and started on the Proxmox host, verified from inside."""
