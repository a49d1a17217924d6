"""Who may ask for what: keys, sessions, and links that carry their own permission."""

from penstock.access.keyring import Keyring
from penstock.access.keys import Listed, any_usable_key, create_key, list_keys, revoke_key
from penstock.access.principal import LOCAL, SCOPES, Principal
from penstock.access.signing import Signatures

__all__ = [
    "LOCAL",
    "SCOPES",
    "Keyring",
    "Listed",
    "Principal",
    "Signatures",
    "any_usable_key",
    "create_key",
    "list_keys",
    "revoke_key",
]
