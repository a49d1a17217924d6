"""The certificate is checked for the name of the URL, though the connection goes to an address."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from penstock.errors import FetchRefused
from penstock.fetch import Fetcher
from tests.fetch.site import Names, moved, open_site, read, reply, settings_for

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl, which makes the certificate, is absent"
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Of good.example, signed by itself."""
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=good.example"
    extension = ["-addext", "subjectAltName=DNS:good.example"]
    subprocess.run([*command.split(), *extension, "-keyout", key, "-out", cert], check=True, capture_output=True)
    return key, cert


@pytest.fixture
def server_tls(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    key, cert = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context


@pytest.fixture
def client_tls(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate[1]))


NAMES = {"good_example": [["127.0.0.1"]], "bad_example": [["127.0.0.1"]]}


async def test_the_name_is_what_tls_sees(server_tls: ssl.SSLContext, client_tls: ssl.SSLContext) -> None:
    seen: list[str | None] = []
    server_tls.sni_callback = lambda _socket, name, _context: seen.append(name)
    async with open_site(tls=server_tls) as site:
        site.pages["/"] = reply(b"x")
        fetcher = Fetcher(settings_for(site), resolve=Names(**NAMES), tls=client_tls)

        assert await read(fetcher, site.url("/", "good.example", "https")) == b"x"
        with pytest.raises(FetchRefused, match=r"certificate of bad.example"):
            await read(fetcher, site.url("/", "bad.example", "https"))
    assert seen == ["good.example", "bad.example"]
    assert len(site.requests) == 1


async def test_a_certificate_that_nobody_trusts(server_tls: ssl.SSLContext) -> None:
    async with open_site(tls=server_tls) as site:
        fetcher = Fetcher(settings_for(site), resolve=Names(**NAMES))
        with pytest.raises(FetchRefused, match=r"certificate of good.example"):
            await read(fetcher, site.url("/", "good.example", "https"))
    assert site.requests == []


async def test_no_way_back_to_http(server_tls: ssl.SSLContext, client_tls: ssl.SSLContext) -> None:
    async with open_site(tls=server_tls) as site:
        site.pages["/"] = moved(site.url("/plain", "good.example", "http"))
        fetcher = Fetcher(settings_for(site), resolve=Names(**NAMES), tls=client_tls)
        with pytest.raises(FetchRefused, match="from https to http"):
            await read(fetcher, site.url("/", "good.example", "https"))
    assert len(site.requests) == 1
