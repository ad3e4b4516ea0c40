-- Writes the next events of a run.
--
-- KEYS  record, events
-- ARGV  notice channel, epoch, first sequence, journal limit in bytes, event JSON, ...
-- Reply {'written', cancel JSON or ''} | {'fenced'} | {'closed'} | {'journal_limit'}
-- Atomic: all events or none, with the record's sequence and the notice. A re-sent batch of the same
-- epoch is answered as written. An error reply, and nothing written, where the first sequence does not
-- follow the last written one.
--
-- The one script of the hot path: it does without lib.lua, which saves a tenth of its time.

local call = redis.call
local record, events = KEYS[1], KEYS[2]
local first, count = tonumber(ARGV[3]), #ARGV - 4
local last = first + count - 1

local f = call('HMGET', record, 'state', 'epoch', 'seq', 'bytes', 'cancel', 'terminal')
if f[1] ~= 'running' or f[2] ~= ARGV[2] then
  if not f[1] or f[6] == '1' then return { 'closed' } end
  return { 'fenced' }
end
local sequence = tonumber(f[3])
if sequence >= last then return { 'written', f[5] or '' } end
if first ~= sequence + 1 then
  return redis.error_reply('SEQUENCE ' .. first .. ' does not follow ' .. sequence)
end

local bytes = tonumber(f[4])
for i = 5, #ARGV do bytes = bytes + #ARGV[i] end
if bytes > tonumber(ARGV[4]) then return { 'journal_limit' } end
for i = 5, #ARGV do call('XADD', events, (first + i - 5) .. '-0', 'e', ARGV[i]) end
call('HSET', record, 'seq', last, 'bytes', bytes)
call('PUBLISH', ARGV[1], last .. ' 0')
return { 'written', f[5] or '' }
