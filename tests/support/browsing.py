"""A browser without a window, where there is one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
)  # fmt: skip


def browse(page: Path | str, profile: Path, *flags: str) -> str:
    """What it prints of a page, a file or an address."""
    address = page.as_uri() if isinstance(page, Path) else page
    command = [BROWSER, *FLAGS, f"--user-data-dir={profile}", *flags, address]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
