"""Masking of secrets: in log lines, traces, stored errors and answers to clients.

    hide(secret)             # registers one text; hide_secrets(settings) all secrets of the settings and of the environment
    mask(text)               # the text without registered secrets, passwords in URLs, and anything in the shape of a key

Settings are secret by their types (passwords and `SecretStr`, so that a new field cannot be forgotten), variables by their
names, and any text by its shape: keys and links that Penstock issues, headers, cookies, and keys of other systems. A name
stays readable; only the value after it is cut.
"""

import json
import os
import re
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from urllib.parse import quote, quote_plus, unquote

from pydantic import SecretStr

from penstock.settings import DatabaseUrl, Section, Settings, mask_credentials, parse_options

# Options of a bucket that are not secret; a value of any other one is a secret.
_PLAIN_OPTION = re.compile(
    r"(aws_|azure_|azure_storage_|google_)?"
    r"((default_)?region|bucket(_name)?|account_name|container(_name)?|(\w+_)?endpoint(_url)?|(\w+_)?id|checksum_algorithm|"
    r"(allow|use|skip|disable)_\w+|virtual_hosted_style_request|unsigned_payload|s3_express|request_payer|conditional_put|"
    r"copy_if_not_exists|\w+_(file|path))"
)
_PLAIN_VALUE = re.compile(r"true|false|\d{1,6}", re.IGNORECASE)

# Variables that the clouds' own programs and PostgreSQL's read, and so do the libraries that we use.
_SECRET_VARIABLE = re.compile(
    r"PGPASSWORD|(AWS|AZURE|GOOGLE)_\w*(SECRET|TOKEN|PASSWORD|SAS|CREDENTIAL|CONNECTION_STRING|(?<!ACCESS_)KEY(?!_ID))\w*"
)
_NAMES_A_FILE = re.compile(r"_(FILE|PATH|URI|URL|ENDPOINT|APPLICATION_CREDENTIALS)$")

_NAMES = (
    r"api[_-]?key|account_?key|shared_?access_?(?:key|signature)|secret_?access_?key|client_?secret|"
    r"(?:access|refresh|session|security|sas|id)_?token|x-amz-(?:signature|security-token)|x-goog-signature|x-api-key"
)
# Each with words, in small letters, of which one must be there: searching for them is a tenth of the work of the patterns.
_SHAPES = [
    # our own: a key keeps its first part, by which `penstock keys list` knows it; a link keeps the id of its secret
    (["pk_"], re.compile(r"(pk_[A-Za-z0-9_-]{8}_)[A-Za-z0-9_-]{8,}"), r"\1***"),
    (["v1."], re.compile(r"(v1\.[A-Za-z0-9_-]{1,40}\.[0-9]{1,12}\.)[A-Za-z0-9_-]{20,}"), r"\1***"),
    # headers, as they are sent and as Python writes them
    (
        ["authorization"],
        re.compile(
            r"(?i)(authorization\b['\"]?\s*[:=,]\s*(?:b(?=['\"]))?['\"]?(?:(?:bearer|basic|sharedkey|aws4-hmac-sha256)\s+)?)"
            r"[^\s'\",][^'\"\r\n]*"
        ),
        r"\1***",
    ),
    (["bearer"], re.compile(r"\b(Bearer\s+)(?=\S*[0-9])[A-Za-z0-9._~+/=-]{12,}"), r"\1***"),
    (
        ["cookie"],
        re.compile(r"(?i)(\b(?:set-)?cookie\b['\"]?\s*[:=,]\s*(?:b(?=['\"]))?['\"]?)[^\s'\"][^'\"\r\n]*"),
        r"\1***",
    ),
    # what others call their secrets
    (
        ["key", "secret", "token", "signature"],
        re.compile(rf"(?i)\b((?:\w+[_-])?(?:{_NAMES})['\"]?\s*[=:]\s*['\"]?)[^\s&;,'\"]{{4,}}"),
        r"\1***",
    ),
    (
        ["sig=", "signature=", "token=", "key="],
        re.compile(r"(?i)([?&;](?:sig|signature|token|key)=)[^\s&;,'\"]+"),
        r"\1***",
    ),
    (["sk-"], re.compile(r"\b(sk-)[A-Za-z0-9_-]{16,}"), r"\1***"),
    (["eyj"], re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"), "***"),
    (
        ["private key"],
        re.compile(
            r"(-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----)(?!\*\*\*)[^-]*(?:-----END [A-Z ]{0,20}PRIVATE KEY-----)?"
        ),
        r"\1***",
    ),
]

_secrets: set[str] = set()
_pattern: re.Pattern[str] | None = None
_registering = threading.Lock()


def hide(secret: str) -> None:
    """Register a secret: neither it nor its escaped forms are printed again. Under 4 characters it would mask usual words."""
    global _pattern  # noqa: PLW0603 - one registry per process, as for logging itself
    forms = {secret, repr(secret)[1:-1], repr(secret.encode(errors="replace"))[2:-1], json.dumps(secret)[1:-1]}
    forms |= {quote(secret, safe="", errors="replace"), quote_plus(secret, errors="replace")}
    forms |= set(secret.splitlines())  # a traceback may indent each line of a key
    with _registering:
        _secrets.update(form for form in forms if len(form) >= 4)
        longest_first = sorted(_secrets, key=len, reverse=True)
        _pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


def hide_secrets(settings: Settings) -> None:
    """Register all secrets of the settings, and those in the variables of clouds and of PostgreSQL."""
    for secret in (*find_secrets(settings), *find_variables(os.environ)):
        hide(secret)


def mask(text: str) -> str:
    """The text without registered secrets, without passwords in URLs, and without what has the shape of a key."""
    return mask_shapes(mask_credentials(_pattern.sub("***", text) if _pattern else text))


def mask_tracebacks() -> None:
    """Mask what Python itself prints, of a failed thread or a finalizer. For Penstock's own processes."""

    def say(error: BaseException | None, where: object) -> None:
        lines = "".join(traceback.format_exception(error)) if error is not None else ""
        sys.stderr.write(mask(f"Ignored in {where!r}:\n{lines}"))

    threading.excepthook = lambda failed: say(failed.exc_value, failed.thread and failed.thread.name)
    sys.unraisablehook = lambda failed: say(failed.exc_value, failed.err_msg or failed.object)


def mask_value(value: object, depth: int = 0) -> object:
    """A copy made of plain values only, so that a renderer never calls an unknown repr."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and -1e308 < value < 1e308:  # NaN and infinity are not JSON
        text = mask(str(value))
        return value if text == str(value) else text
    if depth < 8:  # deeper, or in a circle: one text is enough
        if isinstance(value, Mapping):
            return {mask(_printed(key)): mask_value(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [mask_value(item, depth + 1) for item in value]
    return mask(_printed(value))


def _printed(value: object) -> str:
    try:
        return repr(value) if isinstance(value, BaseException | bytes | bytearray) else str(value)
    except Exception as error:  # noqa: BLE001 - a log line must not break the work that it reports
        return f"<{type(value).__name__} without text: {type(error).__name__}>"


def find_secrets(settings: Section) -> Iterator[str]:
    """Every secret of these settings, those in tables and sections, too."""
    for name in type(settings).model_fields:
        match getattr(settings, name):
            case DatabaseUrl() as url:
                if url.password:
                    yield url.password
            case SecretStr() as secret if name.endswith("options"):
                yield from _secret_options(parse_options(secret))
            case SecretStr() as secret if name == "url":
                yield from _secrets_of_address(secret.get_secret_value())
            case SecretStr() as secret:
                yield secret.get_secret_value()
            case Section() as section:
                yield from find_secrets(section)
            case dict() as table:
                for section in table.values():
                    if isinstance(section, Section):  # else names and what they mean
                        yield from find_secrets(section)


def _secrets_of_address(text: str) -> Iterator[str]:
    """The password of a URL, as it is written and as it is meant, or the keys of a connection string; the rest may be read."""
    user, at, _ = text.partition("://")[2].rpartition("@")
    if at and ":" in user:
        password = user.partition(":")[2]
        yield from {password, unquote(password)}
    for part in text.split(";"):
        name, _, value = part.partition("=")
        if value and re.search(r"(?i)key$|password|pwd|signature", name):
            yield value


def _secret_options(options: Mapping[str, str]) -> Iterator[str]:
    """The secret options one by one: masking a region in every line would not help."""
    for name, value in options.items():
        if not (_PLAIN_OPTION.fullmatch(name.lower()) or _PLAIN_VALUE.fullmatch(value)):
            yield value


def find_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """The secrets among the variables of clouds and of PostgreSQL."""
    for name, value in environ.items():
        if value and _SECRET_VARIABLE.fullmatch(name) and not _NAMES_A_FILE.search(name):
            yield value


def mask_shapes(text: str) -> str:
    """The text without what looks like a key, a token, a cookie or a signature, of any system."""
    lowered = text.lower()
    for words, shape, kept in _SHAPES:
        if any(word in lowered for word in words):
            text = shape.sub(kept, text)
    return text
