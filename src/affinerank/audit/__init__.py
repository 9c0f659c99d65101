"""The audit of a click log: what was found, as data, and one page that shows it."""

from affinerank.audit.findings import Audit
from affinerank.audit.run import audit, audit_file

__all__ = ["Audit", "audit", "audit_file"]
