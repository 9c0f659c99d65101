"""Scripts that measure; a package, as some libraries install one of this name."""
