-- Accepts a run, or answers for the one that exists.
--
-- KEYS  record, events, [idempotency entry]
-- ARGV  prefix, tenant, run id, enqueue id, payload digest, request JSON, event 1 JSON, maxQueueWaitMs,
--       grant lease ms
-- Reply {'enqueued' | 'duplicate', run id, state, grants} | {'run_id_conflict'}
--       | {'idempotency_conflict', run id}; grants flat: tenant, run id, grant, ...
-- Atomic: idempotency entry, record, event 1, backlog, deadline, admission. A re-sent call (same enqueue
-- id) is answered 'enqueued' again; its grant is named again while no attempt has claimed it.

local record, events, idem = KEYS[1], KEYS[2], KEYS[3]
local prefix, tenant, run, enqueue_id, digest = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local function answer(kind, id, found)
  local grants = {}
  if found[2] == 'granted' then grants = { tenant, id, found[3] } end
  return { kind, id, outward(found[2]), grants }
end

if idem then
  local entry = redis.call('GET', idem)
  if entry then
    local id, earlier = string.match(entry, '^(%S+) (%S+)$')
    local found = redis.call('HMGET', record_key(prefix, tenant, id), 'enqueueId', 'state', 'grant')
    if found[1] then
      if earlier ~= digest then return { 'idempotency_conflict', id } end
      return answer(found[1] == enqueue_id and 'enqueued' or 'duplicate', id, found)
    end
  end
end

local found = redis.call('HMGET', record, 'enqueueId', 'state', 'grant')
if found[1] == enqueue_id then return answer('enqueued', run, found) end
if found[1] then return { 'run_id_conflict' } end

local us = micros()
local now = millis(us)
redis.call('XADD', events, '1-0', 'e', ARGV[7])
redis.call('HSET', record,
  'state', 'queued', 'epoch', 0, 'owner', '', 'claims', ' ', 'seq', 1, 'bytes', #ARGV[7], 'terminal', 0,
  'grant', 0, 'handedOver', 0, 'lost', 0, 'idem', idem or '', 'request', ARGV[6],
  'payloadDigest', digest, 'enqueueId', enqueue_id, 'queuedAt', text(now))
if idem then redis.call('SET', idem, run .. ' ' .. digest) end
redis.call('ZADD', prefix .. ':t:' .. tenant .. ':backlog', text(us), run)
redis.call('ZADD', prefix .. ':waiting', text(now + tonumber(ARGV[8])), tenant .. ' ' .. run)
redis.call('PUBLISH', record .. ':notice', '1 0')
place(prefix, tenant)
return { 'enqueued', run, 'queued', grant_next(prefix, now, tonumber(ARGV[9])) }
