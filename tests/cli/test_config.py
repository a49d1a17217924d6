"""`penstock config`: what is in force, and why."""

import json
from pathlib import Path

from tests.processes import penstock


async def test_values_come_with_their_origin_and_without_secrets(home: Path) -> None:
    (home / "penstock.toml").write_text("[api]\nport = 9000\n")
    environ = {
        "PENSTOCK_HOME": str(home),
        "PENSTOCK_POOL__SIZE": "3",
        "PENSTOCK_DATABASE_URL": "postgresql://ada:secret-canary@db/x",
    }
    code, said = await penstock("config", "--json", **environ)
    assert code == 0
    found = json.loads(said)
    assert found["pool.size"] == {"value": "3", "origin": "PENSTOCK_POOL__SIZE"}
    assert found["api.port"] == {"value": "9000", "origin": str(home / "penstock.toml")}
    assert found["pool.call_timeout"] == {"value": "30s", "origin": "default"}
    assert "secret-canary" not in said
    code, said = await penstock("config", **environ)
    assert (code, "postgresql://ada:***@db/x" in said) == (0, True)
