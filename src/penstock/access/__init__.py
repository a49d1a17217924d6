"""Authentication: API keys, browser sessions, and signed download links."""

from penstock.access.keys import (
    LOCAL,
    KeyRecord,
    Keyring,
    Principal,
    any_usable_key,
    create_key,
    list_keys,
    revoke_key,
)
from penstock.access.tokens import (
    SESSION_COOKIE,
    SESSION_LIFETIME,
    SigningKeys,
    check_link,
    open_session,
    read_session,
    sign_link,
)
