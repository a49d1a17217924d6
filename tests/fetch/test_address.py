from ipaddress import ip_address

import pytest

from penstock.fetch.address import PrivateAllowlist, special_kind
from tests.fetch.special_addresses import SPECIAL


@pytest.mark.parametrize(("address", "kind"), SPECIAL)
def test_special_kind(address: str, kind: str) -> None:
    assert kind in (special_kind(ip_address(address)) or "public")


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.167.255.255",
        "223.255.255.255",
        "2001:4860:4860::8888",
        "2606:4700::1111",
        "2a00:1450::1",
    ],
)
def test_public_addresses(address: str) -> None:
    assert special_kind(ip_address(address)) is None


def test_exceptions_are_hosts_and_networks() -> None:
    allowlist = PrivateAllowlist.read(["Intranet.Example.", "10.1.0.0/16", "fd00::7"])

    assert allowlist.refusal("intranet.example", "192.168.0.1") is None
    assert allowlist.refusal("other.example", "192.168.0.1") == "a private"
    assert allowlist.refusal("other.example", "10.1.2.3") is None
    assert allowlist.refusal("other.example", "10.2.2.3") == "a private"
    assert allowlist.refusal("other.example", "::ffff:10.1.2.3") == "a translated"
    assert allowlist.refusal("other.example", "fd00::7") is None
    assert allowlist.refusal("other.example", "fd00::8") == "a private"
