from ipaddress import ip_address

import pytest

from penstock.fetch.address import Exceptions, special_kind

SPECIAL = [
    ("0.0.0.0", "unspecified"),
    ("0.1.2.3", "unspecified"),
    ("10.0.0.1", "private"),
    ("100.64.0.1", "shared"),
    ("100.100.100.200", "shared"),
    ("100.127.255.255", "shared"),
    ("127.0.0.1", "loopback"),
    ("127.255.255.254", "loopback"),
    ("168.63.129.16", "cloud"),
    ("169.254.169.254", "link-local"),
    ("172.16.0.1", "private"),
    ("172.31.255.255", "private"),
    ("192.0.0.192", "reserved"),
    ("192.0.2.1", "reserved"),
    ("192.88.99.1", "translated"),
    ("192.168.1.1", "private"),
    ("198.18.0.1", "reserved"),
    ("198.19.255.255", "reserved"),
    ("198.51.100.1", "reserved"),
    ("203.0.113.1", "reserved"),
    ("224.0.0.1", "multicast"),
    ("239.255.255.255", "multicast"),
    ("240.0.0.1", "reserved"),
    ("255.255.255.255", "reserved"),
    ("::", "unspecified"),
    ("::1", "loopback"),
    ("::127.0.0.1", "translated"),
    ("::8.8.8.8", "translated"),
    ("::ffff:127.0.0.1", "translated"),
    ("::ffff:8.8.8.8", "translated"),
    ("::ffff:0:127.0.0.1", "translated"),
    ("64:ff9b::7f00:1", "translated"),
    ("64:ff9b:1::1", "translated"),
    ("100::1", "reserved"),
    ("2001::1", "translated"),
    ("2001:0:4136:e378::1", "translated"),
    ("2001:10::1", "reserved"),
    ("2001:20::1", "reserved"),
    ("2001:db8::1", "reserved"),
    ("2002:7f00:1::", "translated"),
    ("3fff::1", "reserved"),
    ("4000::1", "reserved"),
    ("5f00::1", "reserved"),
    ("fc00::1", "private"),
    ("fd00:ec2::254", "private"),
    ("fe80::1", "link-local"),
    ("fe80::1%2", "link-local"),
    ("febf::1", "link-local"),
    ("fec0::1", "private"),
    ("ff02::1", "multicast"),
    ("ffff::1", "multicast"),
]


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
    exceptions = Exceptions.read(["Intranet.Example.", "10.1.0.0/16", "fd00::7"])

    assert exceptions.refusal("intranet.example", "192.168.0.1") is None
    assert exceptions.refusal("other.example", "192.168.0.1") == "a private"
    assert exceptions.refusal("other.example", "10.1.2.3") is None
    assert exceptions.refusal("other.example", "10.2.2.3") == "a private"
    assert exceptions.refusal("other.example", "::ffff:10.1.2.3") == "a translated"
    assert exceptions.refusal("other.example", "fd00::7") is None
    assert exceptions.refusal("other.example", "fd00::8") == "a private"
