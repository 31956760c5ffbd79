"""The index engine: every verb evaluated in memory; the base of the memory and the journal store."""
