"""How many files a process may have open: three a written segment, two a mapped one, one a connection."""

import resource


def raise_file_limit() -> None:
    """Take what the system allows; the usual soft limit of 1,024 is a few hundred topics."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
