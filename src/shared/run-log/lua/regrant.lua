-- Replaces a grant whose job is gone by the next number, if it is still the run's grant.
--
-- KEYS  record
-- ARGV  prefix, tenant, run id, grant, grant lease ms
-- Reply the new grant, or '' where the given one is not current or the run has ended
-- Atomic: a claim of the old grant is 'stale' from here on; an attempt that still runs is fenced, and
-- counts as lost at the next claim. A re-sent call is answered ''; the sweep brings the grant up again.

local record = KEYS[1]
local prefix, tenant, run, grant = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local f = redis.call('HMGET', record, 'state', 'grant')
if not f[1] or TERMINAL[f[1]] or f[1] == 'queued' or f[2] ~= grant then return '' end
local new = text(tonumber(grant) + 1)
release(prefix, tenant, run, grant)
redis.call('HSET', record, 'state', 'granted', 'owner', '', 'grant', new)
lease(prefix, tenant, run, new, millis(micros()) + tonumber(ARGV[5]))
return new
