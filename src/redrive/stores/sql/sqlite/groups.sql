-- name: oldest_tick
-- Since when counts wait to be folded.
SELECT at FROM ticks ORDER BY n LIMIT 1
