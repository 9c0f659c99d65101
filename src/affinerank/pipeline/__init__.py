"""The stages, composed: the only place where one stage's result enters the next."""
