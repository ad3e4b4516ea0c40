-- Admits waiting runs.
--
-- KEYS  the lane's grants (names the slot)
-- ARGV  prefix, grant lease ms
-- Reply grants, flat: tenant, run id, grant, ...
-- Atomic: each run's step from "queued" to "granted" with its lease. A call whose reply is lost is made
-- good by the sweep, when the leases run out.

return grant_next(ARGV[1], millis(micros()), tonumber(ARGV[2]))
