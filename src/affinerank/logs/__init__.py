"""Click logs as they are: their files, columns, faults, and other systems' formats."""
