-- Examines one page of dead or done jobs: their parts must have the same ids.
--
-- KEYS  dead dead:jobs dead:opts dead:info done done:jobs done:info done:result
-- ARGV  cursor, count, repair, part (dead, dead:jobs …), info for a dead job that has none
-- Returns the next cursor, the bytes read, then kind, id, detail, what was done or '' for each finding
-- @include now
-- @include doctor
-- @include types
local part, info = ARGV[4], ARGV[5]
local KEY = ({
  ['dead'] = DEAD, ['dead:jobs'] = DEAD_JOBS, ['dead:opts'] = DEAD_OPTS, ['dead:info'] = DEAD_INFO,
  ['done'] = DONE, ['done:jobs'] = DONE_JOBS, ['done:info'] = DONE_INFO, ['done:result'] = DONE_RESULT,
})[part]

if not count or not KEY or not info then return refuse('the doctor looks at 1 to 1000 ids of a part') end
local is_dead = string.sub(part, 1, 4) == 'dead'
local kind = is_dead and 'dead_parts' or 'done_parts'
local INDEX = is_dead and DEAD or DONE
-- Every ended job has the first part.
local parts = is_dead and { DEAD_JOBS, DEAD_OPTS, DEAD_INFO } or { DONE_INFO, DONE_JOBS, DONE_RESULT }

local function look_at_index(id, score)
  if redis.call('HEXISTS', parts[1], id) == 0 then
    if find(kind, id, is_dead and 'without a payload' or 'without an info', 'removed') then
      redis.call('ZREM', INDEX, id)
      for _, hash in ipairs(parts) do redis.call('HDEL', hash, id) end
    end
    return
  end
  if is_dead and redis.call('HEXISTS', DEAD_INFO, id) == 0 then
    if find(kind, id, 'without a cause', 'given one') then redis.call('HSET', DEAD_INFO, id, info) end
  end
  if not is_time(tonumber(score)) then
    if find('bad_score', id, part .. ' at ' .. score, 'kept from now on') then
      redis.call('ZADD', INDEX, whole(now_ms), id)
    end
  end
end

local function look_at_part(id)
  if redis.call('ZSCORE', INDEX, id) then return end
  -- The payload of a dead job may be all that is left of it.
  local is_kept = KEY == DEAD_JOBS
  if find(kind, id, 'in ' .. part .. ' alone', is_kept and 'listed as dead' or 'removed') then
    if is_kept then
      redis.call('ZADD', DEAD, whole(now_ms), id)
      redis.call('HSETNX', DEAD_INFO, id, info)
    else
      redis.call('HDEL', KEY, id)
    end
  end
end

expect_hashes(unpack(parts))
expect_zsets(INDEX)
if KEY == INDEX then
  local page = read_page('ZSCAN', INDEX)
  for i = 1, #page, 2 do
    if not seen[page[i]] then look_at_index(page[i], page[i + 1]) end
    seen[page[i]] = true
  end
else
  for _, id in ipairs(read_names(KEY)) do
    if not seen[id] then look_at_part(id) end
    seen[id] = true
  end
end
return reply
