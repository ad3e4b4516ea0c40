-- Writes the last events of a run and ends it.
--
-- KEYS  record, events
-- ARGV  prefix, tenant, run id, epoch, first sequence, terminal state, life after the end ms,
--       grant lease ms, journal limit in bytes, event JSON, ... (the last one is terminal)
-- Reply {'finished', grants} | {'fenced'} | {'closed'} | {'journal_limit'}; grants flat: tenant, run id,
--       grant, ...
-- Atomic: events, terminal state, slot, lives, notice, next admissions. The journal limit holds for the
-- events before the terminal one: alone, that is always taken. A re-sent finish is answered 'finished'
-- without grants; what the first call admitted and nobody heard of comes up in the sweep. An error reply,
-- and nothing written, where the first sequence does not follow the last written one.

local record, events = KEYS[1], KEYS[2]
local prefix, tenant, run, state = ARGV[1], ARGV[2], ARGV[3], ARGV[6]
local first, count = tonumber(ARGV[5]), #ARGV - 9
local last = first + count - 1

local f = redis.call('HMGET', record, 'state', 'epoch', 'seq', 'bytes', 'grant', 'idem')
if not f[1] then return { 'closed' } end
local sequence = tonumber(f[3])
if TERMINAL[f[1]] then
  if f[1] == state and f[2] == ARGV[4] and sequence == last then return { 'finished', {} } end
  return { 'closed' }
end
if f[1] ~= 'running' or f[2] ~= ARGV[4] then return { 'fenced' } end
if first ~= sequence + 1 then
  return redis.error_reply('SEQUENCE ' .. first .. ' does not follow ' .. sequence)
end

local bytes = tonumber(f[4])
for i = 10, #ARGV - 1 do bytes = bytes + #ARGV[i] end
if count > 1 and bytes > tonumber(ARGV[9]) then return { 'journal_limit' } end

local now = millis(micros())
for i = 10, #ARGV do redis.call('XADD', events, (first + i - 10) .. '-0', 'e', ARGV[i]) end
bytes = bytes + #ARGV[#ARGV]
redis.call('HSET', record, 'state', state, 'seq', last, 'bytes', bytes, 'terminal', 1, 'endedAt', text(now))
release(prefix, tenant, run, f[5])
expire(record, events, f[6], text(now + tonumber(ARGV[7])))
redis.call('PUBLISH', record .. ':notice', last .. ' 1')
return { 'finished', grant_next(prefix, now, tonumber(ARGV[8])) }
