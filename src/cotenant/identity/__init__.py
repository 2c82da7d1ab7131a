"""From a cgroup id to its tenant's name.

``path`` parses cgroup paths, ``naming`` and ``runtimes`` ask for names, ``Ledger`` keeps every
cgroup ever seen and makes the rows of ``containers``.
"""

from cotenant.identity.ids import NOBODY, UNTOLD, cgroup_id
from cotenant.identity.ledger import Ledger
from cotenant.identity.naming.backlog import Backlog, NameQuestion
from cotenant.identity.naming.names import Names
from cotenant.identity.path.model import Identity, Job, Layer, Owner, Trust
from cotenant.identity.path.parser import parse_path
from cotenant.identity.path.procfile import parse_file, parse_line
from cotenant.identity.rows import excluded
from cotenant.identity.tenant import Tenancy, TenantRule, tenancy
from cotenant.identity.translation import Preference
from cotenant.identity.walk import Mount, mounts, survey, walk

__all__ = [
    "NOBODY",
    "UNTOLD",
    "Backlog",
    "Identity",
    "Job",
    "Layer",
    "Ledger",
    "Mount",
    "NameQuestion",
    "Names",
    "Owner",
    "Preference",
    "Tenancy",
    "TenantRule",
    "Trust",
    "cgroup_id",
    "excluded",
    "mounts",
    "parse_file",
    "parse_line",
    "parse_path",
    "survey",
    "tenancy",
    "walk",
]
