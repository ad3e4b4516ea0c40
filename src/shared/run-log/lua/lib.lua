-- Shared by the scripts of the run log: put in front of each but append.
--
-- Keys, all under the lane's prefix P = {sd:<lane>} and so in one slot:
--   P:t:<tenant>:run:<runId>         hash    the run record (fields below)
--   P:t:<tenant>:run:<runId>:events  stream  <sequence>-0, one field e
--   P:t:<tenant>:run:<runId>:notice  channel "<sequence> <terminal 0|1>", or "cancel"
--   P:t:<tenant>:idem:<sha256>       string  "<runId> <payload digest>"
--   P:t:<tenant>:backlog             zset    run id -> arrival, µs
--   P:t:<tenant>:active              zset    run id -> lease expiry, ms
--   P:ready                          zset    tenant with a backlog -> arrival of its first run, µs
--   P:grants                         zset    "<tenant> <runId> <grant>" -> lease expiry, ms
--   P:waiting                        zset    "<tenant> <runId>" -> queue deadline, ms
--
-- Record fields:
--   state       queued | granted | running | a terminal state. "granted" is shown outside as "queued"
--   epoch       claims so far; the events of an attempt carry it
--   owner       claim id of the attempt that runs; empty where none does
--   claims      the last claim ids, oldest first, a space before and after each
--   seq, bytes  last sequence and sum of bytes in the stream
--   terminal    0 | 1
--   grant       admissions so far; the last one is valid
--   handedOver  epoch of the attempt that gave the run back last
--   lost        attempts that ended without giving it back and without an end
--   cancel      JSON {reason?, requestedAt}, or absent
--   idem        key of its idempotency entry, or empty
--   request, payloadDigest, enqueueId, worker, queuedAt, firstClaimedAt, endedAt
--
-- A write is let through where the record is "running" in the writer's epoch. A hand-back and a
-- regrant leave "granted" behind, so that the earlier attempt is fenced before the next one claims.
--
-- The server's TIME is the only clock. Each script is atomic; it checks everything before its first
-- write, so that an error reply leaves nothing half done.

local TERMINAL = {
  succeeded = true, cancelled = true, policy_denied = true,
  limit_exceeded = true, timed_out = true, failed = true,
}

-- Most runs that one call admits, and most that it looks at.
local MAX_GRANTS = 16
local MAX_LOOKS = 64

local function micros()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function millis(us)
  return math.floor(us / 1000)
end

-- Whole numbers as text: Lua's own way turns to exponents from 1e14 on.
local function text(number)
  return string.format('%.0f', number)
end

local function record_key(prefix, tenant, run)
  return prefix .. ':t:' .. tenant .. ':run:' .. run
end

local function outward(state)
  if state == 'granted' then return 'queued' end
  return state
end

-- The run's place among those admitted, until its lease runs out.
local function lease(prefix, tenant, run, grant, expiry)
  redis.call('ZADD', prefix .. ':grants', expiry, tenant .. ' ' .. run .. ' ' .. grant)
  redis.call('ZADD', prefix .. ':t:' .. tenant .. ':active', expiry, run)
end

local function release(prefix, tenant, run, grant)
  redis.call('ZREM', prefix .. ':grants', tenant .. ' ' .. run .. ' ' .. grant)
  redis.call('ZREM', prefix .. ':t:' .. tenant .. ':active', run)
end

-- Puts the tenant where its first waiting run says, or nowhere.
local function place(prefix, tenant)
  local first = redis.call('ZRANGE', prefix .. ':t:' .. tenant .. ':backlog', 0, 0, 'WITHSCORES')
  if first[1] then
    redis.call('ZADD', prefix .. ':ready', first[2], tenant)
  else
    redis.call('ZREM', prefix .. ':ready', tenant)
  end
end

-- The picker: admits waiting runs in the order of their arrival. Capacity is not limited.
-- Returns a flat list: tenant, run, grant, tenant, run, grant, ...
local function grant_next(prefix, now, lease_ms)
  local grants = {}
  for _ = 1, MAX_LOOKS do
    if #grants >= 3 * MAX_GRANTS then break end
    local tenant = redis.call('ZRANGE', prefix .. ':ready', 0, 0)[1]
    if not tenant then break end
    local run = redis.call('ZPOPMIN', prefix .. ':t:' .. tenant .. ':backlog')[1]
    place(prefix, tenant)
    if run then
      local record = record_key(prefix, tenant, run)
      local found = redis.call('HMGET', record, 'state', 'grant')
      if found[1] == 'queued' then
        local grant = text(tonumber(found[2]) + 1)
        redis.call('HSET', record, 'state', 'granted', 'grant', grant)
        lease(prefix, tenant, run, grant, now + lease_ms)
        grants[#grants + 1] = tenant
        grants[#grants + 1] = run
        grants[#grants + 1] = grant
      end
    end
  end
  return grants
end

-- Gives record, stream and idempotency entry their life after the end.
local function expire(record, events, idem, at)
  redis.call('PEXPIREAT', record, at)
  redis.call('PEXPIREAT', events, at)
  if idem and idem ~= '' then redis.call('PEXPIREAT', idem, at) end
end
