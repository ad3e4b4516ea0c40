-- Gives a running run back: the same grant may be claimed again, and no attempt counts as lost.
--
-- KEYS  record
-- ARGV  prefix, tenant, run id, epoch, grant lease ms
-- Reply 'handed_back' | 'fenced' | 'closed'
-- Atomic: the state is "granted" from here on, which fences the attempt that gave it back; the next claim
-- raises the epoch. A re-sent hand-back is answered 'handed_back' until the next claim.

local record = KEYS[1]
local f = redis.call('HMGET', record, 'state', 'epoch', 'grant', 'handedOver')
if not f[1] or TERMINAL[f[1]] then return 'closed' end
if f[2] ~= ARGV[4] then return 'fenced' end
if f[1] ~= 'running' then
  if f[4] == ARGV[4] then return 'handed_back' end
  return 'fenced'
end
redis.call('HSET', record, 'state', 'granted', 'owner', '', 'handedOver', ARGV[4])
lease(ARGV[1], ARGV[2], ARGV[3], f[3], millis(micros()) + tonumber(ARGV[5]))
return 'handed_back'
