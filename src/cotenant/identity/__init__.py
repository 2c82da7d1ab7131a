"""Who it was: from a cgroup id to the tenant's name.

``parse_path`` and its siblings read names, purely; ``Resolver`` asks runtimes; ``Ledger``
keeps every cgroup ever seen and writes the ``containers`` table.
"""

from cotenant.identity.grammar import parse_path
from cotenant.identity.jobs import decode_sluid
from cotenant.identity.model import Identity, Job, Layer, Owner, Trust
from cotenant.identity.names import Names
from cotenant.identity.procfile import parse_file, parse_line
from cotenant.identity.select import excluded, matching_rows, tenant_predicate
from cotenant.identity.tenant import Tenancy, TenantRule, tenancy

__all__ = [
    "Identity",
    "Job",
    "Layer",
    "Names",
    "Owner",
    "Tenancy",
    "TenantRule",
    "Trust",
    "decode_sluid",
    "excluded",
    "matching_rows",
    "parse_file",
    "parse_line",
    "parse_path",
    "tenancy",
    "tenant_predicate",
]
