-- Ends a run that no attempt holds: none has claimed it yet, or the last one gave it back or was lost.
-- Otherwise leaves word for the attempt.
--
-- KEYS  record, events
-- ARGV  prefix, tenant, run id, terminal event JSON, its sequence, its epoch, terminal state, life after the
--       end ms, grant lease ms, '' or 'cancel', reason as JSON text or ''
-- Reply {'ended', grant or '', grants} | {'running'} | {'outdated'} | {'closed', state} | {'not_found'};
--       grants flat
-- Atomic: for a waiting run the terminal event, terminal state, slot, backlog, lives, notice, next
-- admissions; for one that runs, and where the event does not follow the run's last one in the run's epoch
-- ('outdated'), the cancel flag and the notice "cancel". The first flag stays.

local record, events = KEYS[1], KEYS[2]
local prefix, tenant, run, state = ARGV[1], ARGV[2], ARGV[3], ARGV[7]
local sequence = tonumber(ARGV[5])

local f = redis.call('HMGET', record, 'state', 'epoch', 'bytes', 'grant', 'idem', 'cancel', 'seq')
if not f[1] then return { 'not_found' } end
if TERMINAL[f[1]] then return { 'closed', f[1] } end

local now = millis(micros())
if f[1] == 'running' or f[2] ~= ARGV[6] or tonumber(f[7]) + 1 ~= sequence then
  if ARGV[10] == 'cancel' and not f[6] then
    local reason = ''
    if ARGV[11] ~= '' then reason = '"reason":' .. ARGV[11] .. ',' end
    redis.call('HSET', record, 'cancel', '{' .. reason .. '"requestedAt":' .. text(now) .. '}')
    redis.call('PUBLISH', record .. ':notice', 'cancel')
  end
  if f[1] == 'running' then return { 'running' } end
  return { 'outdated' }
end

redis.call('XADD', events, sequence .. '-0', 'e', ARGV[4])
redis.call('HSET', record, 'state', state, 'seq', sequence, 'bytes', tonumber(f[3]) + #ARGV[4], 'terminal', 1,
  'endedAt', text(now))
local grant = ''
if f[1] == 'granted' then
  grant = f[4]
  release(prefix, tenant, run, grant)
else
  redis.call('ZREM', prefix .. ':t:' .. tenant .. ':backlog', run)
  place(prefix, tenant)
end
redis.call('ZREM', prefix .. ':waiting', tenant .. ' ' .. run)
expire(record, events, f[5], text(now + tonumber(ARGV[8])))
redis.call('PUBLISH', record .. ':notice', sequence .. ' 1')
return { 'ended', grant, grant_next(prefix, now, tonumber(ARGV[9])) }
