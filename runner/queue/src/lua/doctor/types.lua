-- Finds keys of a wrong type. Such a key is renamed, so that nothing is lost: `…:<name>:broken:<unix ms>`,
-- in the same slot.
--
-- KEYS  jobs opts pending ready unack retry attempts errors meta holders blocked blocked:at turns turns:of dead dead:jobs dead:opts dead:info recordings recordings:at done done:jobs done:info done:result outbox inbox unique ticks kv kv:rev kv:at kv:calls
-- ARGV  cursor (0), count, repair
-- Returns 0, 0, then kind, key, detail, what was done or '' for each finding
-- @include now
-- @include doctor
local WANTED = {
  hash = {
    JOBS, OPTS, ATTEMPTS, ERRORS, META, BLOCKED_AT, TURNS, TURNS_OF, DEAD_JOBS, DEAD_OPTS, DEAD_INFO,
    DONE_JOBS, DONE_INFO, DONE_RESULT, OUTBOX, TICKS,
    KV, KV_REV, KV_CALLS, RECORDINGS,
  },
  zset = { PENDING, READY, UNACK, RETRY, HOLDERS, BLOCKED, DEAD, DONE, INBOX, UNIQUE, KV_AT, RECORDINGS_AT },
}

for wanted, keys in pairs(WANTED) do
  for _, key in ipairs(keys) do
    local found = redis.call('TYPE', key).ok
    local broken = key .. ':broken:' .. whole(now_ms)
    if found ~= wanted and found ~= 'none' then
      if find('wrong_type', key, 'a ' .. found .. ', not a ' .. wanted, 'renamed to ' .. broken) then
        redis.call('RENAMENX', key, broken)
      end
    end
  end
end
return reply
