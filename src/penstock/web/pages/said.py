"""What a page says after a form was sent. An address has a word of this list, never a sentence: anybody can make those."""

SAID = {
    "uploaded": "Accepted. It is prepared as soon as a worker takes it.",
    "retried": "It is tried again.",
    "cancelled": "Cancelled.",
    "deleted": "Deleted. Search does not find it any more.",
    "restored": "Restored.",
    "bulk-retried": "They are tried again.",
    "bulk-deleted": "Deleted. Search does not find them any more.",
    "paused": "Paused. What runs goes on; nothing new is claimed.",
    "resumed": "It goes on.",
    "redriven": "They have another chance: one, then ten, then all. It stops when the same failure returns.",
    "discarded": "Given up. The history keeps the reason.",
    "run": "A job of it is in the queue.",
    "removed": "Removed.",
    "closed": "The breaker is closed: calls go through again.",
    "created": "The collection is there.",
    "signed-out": "Signed out.",
    "nothing": "There was nothing to do.",
}
