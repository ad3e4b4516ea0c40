-- Makes a delivery of the job the run's only attempt.
--
-- KEYS  record
-- ARGV  prefix, tenant, run id, grant, claim id, worker, lease ms
-- Reply {'claimed', epoch, sequence, request, queuedAt, firstClaimedAt, lost, handed over 0|1, cancel JSON
--       or '', now} | {'ended'} | {'stale'} | {'not_found'}
-- Atomic: the epoch rises, the earlier owner is fenced, the leases start. A re-sent claim gets its epoch
-- again while it owns the run; once superseded or given back it is 'stale', never a new attempt.

local record = KEYS[1]
local prefix, tenant, run, grant, claim_id = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local MAX_CLAIMS_BYTES = 1024

local f = redis.call('HMGET', record, 'state', 'epoch', 'owner', 'seq', 'grant', 'request', 'queuedAt',
  'firstClaimedAt', 'lost', 'handedOver', 'cancel', 'claims')
local state = f[1]
if not state then return { 'not_found' } end
if TERMINAL[state] then return { 'ended' } end
if f[5] ~= grant or state == 'queued' then return { 'stale' } end

local now = millis(micros())
local epoch, lost, first = tonumber(f[2]), tonumber(f[9]), f[8]
if f[3] ~= claim_id then
  if string.find(f[12], ' ' .. claim_id .. ' ', 1, true) then return { 'stale' } end
  -- An earlier attempt that did not give the run back was lost.
  if epoch > 0 and tonumber(f[10]) ~= epoch then lost = lost + 1 end
  epoch = epoch + 1
  local claims = f[12] .. claim_id .. ' '
  if #claims > MAX_CLAIMS_BYTES then claims = string.match(claims, '^ %S+( .*)$') end
  if not first then
    first = text(now)
    redis.call('ZREM', prefix .. ':waiting', tenant .. ' ' .. run)
  end
  redis.call('HSET', record, 'state', 'running', 'epoch', epoch, 'owner', claim_id, 'claims', claims,
    'lost', lost, 'worker', ARGV[6], 'firstClaimedAt', first)
  lease(prefix, tenant, run, grant, now + tonumber(ARGV[7]))
end
local handed_over = epoch > 1 and tonumber(f[10]) == epoch - 1
return { 'claimed', epoch, tonumber(f[4]), f[6], f[7], first, lost, handed_over and 1 or 0, f[11] or '', now }
