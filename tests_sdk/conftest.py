"""What the tests with real client libraries share: the way to their kit, and a quiet, closed world.

No library may read this machine's settings, wait for its own retries, or ask the network: the only
servers here are on loopback, and the tests start them.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
KITS = HERE.parent / "tests" / "kits"
sys.path += [str(HERE), str(KITS)]  # at the end: they hide no installed module

for name in [*os.environ]:
    if name.lower().endswith("_proxy") or name.startswith(("AWS_", "OPENAI_", "ANTHROPIC_", "PG")):
        del os.environ[name]
os.environ |= {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else its import asks the network
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
    "NO_PROXY": "*",
}
