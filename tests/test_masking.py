"""Which settings and variables are secret, and what is masked although nobody has registered it."""

from pathlib import Path

import pytest

from penstock.settings import load_settings
from penstock.telemetry.masking import find_secrets, find_variables, mask_shapes

KEY = "pk_abcdefgh_" + "Zz09_-" * 7 + "x"
LINK = "v1.k1.1794819600." + "Zz09_-" * 7 + "x"
TOKEN = "Zz09" * 8


def test_every_secret_of_the_settings_is_found(tmp_path: Path) -> None:
    settings = load_settings(
        working_folder=tmp_path,
        environ={},
        home=tmp_path,
        database_url="postgresql://u:first%2Fone@h/d",
        database_direct_url="postgresql://h/d?user=u&password=second",
        database_owner_url="postgresql://owner@h/d",
        blobs={
            "options": "region=us-east-1 account_name=mill secret_access_key=third== session_token=4th0 allow_http=true"
        },
        models={"far": {"url": "http://h", "model": "m", "dimensions": 3, "key": "fifth"}},
    ).settings
    assert sorted(find_secrets(settings)) == ["4th0", "fifth", "first/one", "second", "third=="]


def test_an_option_that_nobody_knows_is_a_secret(tmp_path: Path) -> None:
    options = {"options": "nonsense=sixth"}
    settings = load_settings(working_folder=tmp_path, environ={}, home=tmp_path, blobs=options).settings
    assert list(find_secrets(settings)) == ["sixth"]


def test_the_variables_of_clouds() -> None:
    secret = {
        "AWS_SECRET_ACCESS_KEY": "1",
        "AWS_SESSION_TOKEN": "2",
        "AZURE_STORAGE_ACCOUNT_KEY": "3",
        "AZURE_STORAGE_CONNECTION_STRING": "4",
        "AZURE_CLIENT_SECRET": "5",
        "AZURE_STORAGE_SAS_TOKEN": "6",
        "GOOGLE_SERVICE_ACCOUNT_KEY": "7",
        "PGPASSWORD": "8",
    }
    harmless = {
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_REGION": "eu",
        "AWS_WEB_IDENTITY_TOKEN_FILE": "/file",
        "GOOGLE_APPLICATION_CREDENTIALS": "/file.json",
        "AZURE_FEDERATED_TOKEN_FILE": "/file",
        "KEYBOARD": "de",
        "PATH": "/bin",
    }
    assert sorted(find_variables(secret | harmless)) == sorted(secret.values())


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"the key {KEY} is revoked", "the key pk_abcdefgh_*** is revoked"),
        (f"cut short: {KEY[:30]}", "cut short: pk_abcdefgh_***"),
        (f"no link: {LINK}.", "no link: v1.k1.1794819600.***."),
        (f"GET /api/documents/7/content?token={LINK} 404", "GET /api/documents/7/content?token=*** 404"),
        (f"{{'Authorization': 'Bearer {TOKEN}'}}", "{'Authorization': 'Bearer ***'}"),
        (f"(b'authorization', b'Bearer {TOKEN}')", "(b'authorization', b'Bearer ***')"),
        ("Authorization: Basic dXNlcjpw\nHost: h", "Authorization: Basic ***\nHost: h"),
        (f"sent Bearer {TOKEN} to it", "sent Bearer *** to it"),
        ("Cookie: session=abc; theme=dark\nHost: h", "Cookie: ***\nHost: h"),
        ('"set-cookie": "session=abc; HttpOnly"', '"set-cookie": "***"'),
        ("AccountName=mill;AccountKey=Zz09==;EndpointSuffix=x", "AccountName=mill;AccountKey=***;EndpointSuffix=x"),
        ("https://h/b/k?X-Amz-Signature=abcd&X-Amz-Date=1", "https://h/b/k?X-Amz-Signature=***&X-Amz-Date=1"),
        ("https://h/b?sv=1&sig=ab%2Fcd&se=2", "https://h/b?sv=1&sig=***&se=2"),
        ("{'api_key': 'hello-world'}", "{'api_key': '***'}"),
        ('{"aws_secret_access_key": "a/b+c=="}', '{"aws_secret_access_key": "***"}'),
        ("Incorrect API key provided: sk-" + TOKEN, "Incorrect API key provided: sk-***"),
        (f"eyJ{TOKEN}.eyJ{TOKEN}.{TOKEN} has expired", "*** has expired"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nZz09\nZz09\n-----END RSA PRIVATE KEY-----\n",
            "-----BEGIN RSA PRIVATE KEY-----***\n",
        ),
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str, masked: str) -> None:
    assert mask_shapes(text) == masked
    assert mask_shapes(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "The bearer of basic information ate the cookie.",
        "Document 7 is at version v1.2.3, in the key pk_7 of the table.",
        "The model far gave 3 vectors for 4 texts.",
        "authorization failed",
        "https://example.org/a?q=gate&limit=10",
        "kind=read fingerprint=2f6c01d9a4b3 worker=host:77",
    ],
)
def test_innocent_text_stays(text: str) -> None:
    assert mask_shapes(text) == text
