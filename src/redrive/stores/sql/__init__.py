"""The SQL engine: every verb as named statements in one transaction; dialects add the rest."""
