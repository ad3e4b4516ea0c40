-- Ends a run that no attempt has claimed yet; otherwise leaves word for the attempt.
--
-- KEYS  record, events
-- ARGV  prefix, tenant, run id, event 2 JSON, terminal state, life after the end ms, grant lease ms,
--       '' or 'cancel', reason as JSON text or ''
-- Reply {'ended', grant or '', grants} | {'running'} | {'closed', state} | {'not_found'}; grants flat
-- Atomic: for a waiting run event 2, terminal state, slot, backlog, lives, notice, next admissions; for
-- another the cancel flag and the notice "cancel". The first flag stays.

local record, events = KEYS[1], KEYS[2]
local prefix, tenant, run, state = ARGV[1], ARGV[2], ARGV[3], ARGV[5]

local f = redis.call('HMGET', record, 'state', 'epoch', 'bytes', 'grant', 'idem', 'cancel')
if not f[1] then return { 'not_found' } end
if TERMINAL[f[1]] then return { 'closed', f[1] } end

local now = millis(micros())
if f[2] ~= '0' then
  if ARGV[8] == 'cancel' and not f[6] then
    local reason = ''
    if ARGV[9] ~= '' then reason = '"reason":' .. ARGV[9] .. ',' end
    redis.call('HSET', record, 'cancel', '{' .. reason .. '"requestedAt":' .. text(now) .. '}')
    redis.call('PUBLISH', record .. ':notice', 'cancel')
  end
  return { 'running' }
end

redis.call('XADD', events, '2-0', 'e', ARGV[4])
redis.call('HSET', record, 'state', state, 'seq', 2, 'bytes', tonumber(f[3]) + #ARGV[4], 'terminal', 1,
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
expire(record, events, f[5], text(now + tonumber(ARGV[6])))
redis.call('PUBLISH', record .. ':notice', '2 1')
return { 'ended', grant, grant_next(prefix, now, tonumber(ARGV[7])) }
