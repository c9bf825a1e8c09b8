"""Where the checkout lies: inventory, templates and roles are the user's to edit, so they stay beside the engine."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INVENTORY = ROOT / "inventory"
TEMPLATES = ROOT / "templates"
ROLES = ROOT / "roles"
