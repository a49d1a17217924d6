"""`penstock doctor`: finds everything that is known to go wrong, and fixes what is safe to fix."""

from penstock.operations.doctor.doctor import MOST_UNREAD, examine, examine_session, read_unread_everywhere
from penstock.operations.doctor.finding import ACKNOWLEDGED_FOR, Finding, acknowledge
from penstock.operations.doctor.fixes import FixAttempt, examine_and_fix, fix
from penstock.operations.doctor.process import ApiCheck, WorkerCheck
