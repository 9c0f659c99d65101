"""The steps that the verbs share, each with what goes in and what comes out."""
