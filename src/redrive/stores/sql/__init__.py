"""The SQL engine: every verb as named statements. Not here: connections (`stores.sqlite`, `stores.postgres`)."""
