-- Prolongs the leases of running runs.
--
-- KEYS  record, ... one for each owner
-- ARGV  prefix, lease ms, then for each owner: tenant, run id, epoch
-- Reply flat, for each owner: 'renewed' | 'fenced' | 'closed', cancel JSON or ''
-- Atomic: all owners of the call.

local prefix = ARGV[1]
local expiry = millis(micros()) + tonumber(ARGV[2])
local replies = {}
for i = 1, #KEYS do
  local tenant, run, epoch = ARGV[3 * i], ARGV[3 * i + 1], ARGV[3 * i + 2]
  local f = redis.call('HMGET', KEYS[i], 'state', 'epoch', 'grant', 'cancel')
  local kind, cancel = 'renewed', ''
  if not f[1] or TERMINAL[f[1]] then
    kind = 'closed'
  elseif f[1] ~= 'running' or f[2] ~= epoch then
    kind = 'fenced'
  else
    cancel = f[4] or ''
    lease(prefix, tenant, run, f[3], expiry)
  end
  replies[2 * i - 1] = kind
  replies[2 * i] = cancel
end
return replies
