"""Which tests run where: machines, shards and changed files."""
