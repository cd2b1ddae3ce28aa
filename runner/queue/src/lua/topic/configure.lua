-- Writes the limits of a topic, and the rules by which it is maintained.
--
-- KEYS  meta jobs unack unique inbox
-- ARGV  field, value for each limit; an empty value removes it
-- Returns 1 if anything has changed
-- @include now
-- @include wake
local FIELDS = {
  per_key = true, order = true, max_pending = true, max_running = true, rate = true, burst = true,
  ttl = true, priorities = true, shards = true, max_crashes = true, retention = true, max_dead = true,
  done_retention = true,
}
if #ARGV < 2 or #ARGV % 2 ~= 0 then return refuse('configure takes fields and values') end
for i = 1, #ARGV, 2 do
  if not FIELDS[ARGV[i]] then return refuse('configure knows no limit ' .. ARGV[i]) end
end

-- Jobs stay in the shard they were pushed to, so every number of shards is remembered; so is 1 if there are
-- jobs from before the first number.
local function remember_shards(count)
  local seen = redis.call('HGET', META, 'shards_seen')
  if not seen then
    if count == '1' then return end
    local has_jobs = redis.call('EXISTS', JOBS, UNACK, UNIQUE, INBOX) > 0
    seen = has_jobs and '1' or count
  end
  if not string.find(' ' .. seen .. ' ', ' ' .. count .. ' ', 1, true) then
    seen = seen .. ' ' .. count
  end
  redis.call('HSET', META, 'shards_seen', seen)
end

local fields, before = {}, {}
for i = 1, #ARGV, 2 do fields[#fields + 1] = ARGV[i] end
for i, value in ipairs(redis.call('HMGET', META, unpack(fields))) do before[fields[i]] = value or '' end
local changed = 0
for i, field in ipairs(fields) do
  local value = ARGV[2 * i]
  if before[field] ~= value then
    changed, before[field] = 1, value
    if field == 'shards' then remember_shards(value == '' and '1' or value) end
    if value == '' then
      redis.call('HDEL', META, field)
    else
      redis.call('HSET', META, field, value)
    end
  end
end
-- A limit may have held jobs back that it admits now.
if changed == 1 then wake(now_ms) end
return changed
