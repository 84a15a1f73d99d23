"""Where the build lies that is tested."""
import os
from pathlib import Path

BUILD = Path(os.environ.get("TDM_BUILD", Path(__file__).resolve().parents[2] / "build")).resolve()
