"""Installation of what only some commands need.

The package is on no index: pip needs the path of what it came from."""

from __future__ import annotations

import json
import shlex
from pathlib import Path


def install_command(extra: str) -> str:
    """The command that installs an extra of this package into this environment, such as "onnx" or "onnx,profile"."""
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file():
        return f"pip install -e {shlex.quote(f'{checkout}[{extra}]')}"
    origin = _origin()
    if origin is not None:
        return f"pip install {shlex.quote(f'{origin}[{extra}]')}"
    return f"pip install -e '.[{extra}]' in a checkout of moccasin_mzn"


def _origin() -> Path | None:
    """The checkout, wheel or archive that pip installed this package from, if it is still there (PEP 610)."""
    from importlib import metadata  # slow to import, and seldom needed
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        address = urlsplit(
            json.loads(metadata.distribution("moccasin_mzn").read_text("direct_url.json") or "{}")["url"]
        )
    except (metadata.PackageNotFoundError, KeyError, ValueError):
        return None
    path = Path(url2pathname(address.path))
    return path if address.scheme == "file" and path.exists() else None
