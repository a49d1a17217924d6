"""`penstock doctor`: finds everything that is known to go wrong, and fixes what is safe to fix."""

from penstock.operations.doctor.doctor import examine, examine_session
from penstock.operations.doctor.finding import Finding
from penstock.operations.doctor.fixes import AppliedFix, fix
