-- Finds what needs a look: grants whose lease ran out, and runs that waited too long.
--
-- KEYS  the lane's grants, the lane's waiting
-- ARGV  prefix, limit of each list, lease ms
-- Reply {grants, waits, runs that no attempt has claimed yet}; grants flat: tenant, run id, grant,
--       'queued' | 'running', ...; waits flat: tenant, run id, queuedAt, ...
-- Atomic: what is reported is pushed on by the lease, so that one sweeper at a time handles it; entries of
-- ended, unknown or superseded runs are removed.

local prefix, limit = ARGV[1], tonumber(ARGV[2])
local now = millis(micros())
local later = now + tonumber(ARGV[3])

local grants = {}
for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', text(now), 'LIMIT', 0, limit)) do
  local tenant, run, grant = string.match(member, '^(%S+) (%S+) (%S+)$')
  local f = redis.call('HMGET', record_key(prefix, tenant, run), 'state', 'grant')
  if f[1] and not TERMINAL[f[1]] and f[2] == grant then
    lease(prefix, tenant, run, grant, later)
    local n = #grants
    grants[n + 1], grants[n + 2], grants[n + 3], grants[n + 4] = tenant, run, grant, outward(f[1])
  else
    redis.call('ZREM', KEYS[1], member)
    if not f[1] or TERMINAL[f[1]] then redis.call('ZREM', prefix .. ':t:' .. tenant .. ':active', run) end
  end
end

local waits = {}
for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', text(now), 'LIMIT', 0, limit)) do
  local tenant, run = string.match(member, '^(%S+) (%S+)$')
  local f = redis.call('HMGET', record_key(prefix, tenant, run), 'state', 'epoch', 'queuedAt')
  if f[1] and not TERMINAL[f[1]] and f[2] == '0' then
    redis.call('ZADD', KEYS[2], text(later), member)
    local n = #waits
    waits[n + 1], waits[n + 2], waits[n + 3] = tenant, run, f[3]
  else
    redis.call('ZREM', KEYS[2], member)
  end
end

return { grants, waits, redis.call('ZCARD', KEYS[2]) }
