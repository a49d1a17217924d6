"""How much of its appetite a worker may have, given how busy its pool is. A pure rule.

Above 80 % use the appetite is halved, below 50 % it grows back by a tenth; with every connection in use and somebody
waiting for one, nothing is claimed at all.
"""

from dataclasses import dataclass

from penstock.database.pool import PoolState

BUSY = 0.8
CALM = 0.5
LEAST = 0.05


@dataclass
class Pressure:
    """The part of the free slots that may be filled now."""

    level: float = 1.0
    critical: bool = False

    def feel(self, state: PoolState) -> float:
        """Look at the pool once and adapt."""
        self.critical = state.used >= state.size and state.waiting > 0
        if self.critical or state.use > BUSY:
            self.level = max(LEAST, self.level / 2)
        elif state.use < CALM:
            self.level = min(1.0, self.level + 0.1)
        return 0.0 if self.critical else self.level
