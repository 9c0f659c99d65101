"""The stages, composed: a file for each verb, and beside them the steps they share."""
