"""Why a running handler is told to end."""

from enum import Enum


class Stop(Enum):
    CANCEL = "cancelled"
    TIMEOUT = "timed out"
    STALL = "stalled"
    RELEASE = "released"
    LOST = "lost"
