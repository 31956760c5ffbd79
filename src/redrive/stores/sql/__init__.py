"""What both SQL stores share: verbs over named statements. Not here: connections, claims, ends, searches (`stores.sqlite`, `stores.postgres`)."""
