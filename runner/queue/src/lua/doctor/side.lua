-- Looks at one page of what jobs have beside their payload: options, attempts, errors, turns, ids that
-- are held. What belongs to no job is removed.
--
-- KEYS  jobs opts ready unack retry attempts errors meta blocked blocked:at turns turns:of unique
-- ARGV  cursor, count, repair, part (opts, attempts, errors, turns:of, unique)
-- Returns the next cursor, then kind, id, detail, what was done or '' for each finding. The kind
--         `options` is none yet: the caller sees whether the detail can be read as options
-- @include now
-- @include wake
-- @include turns
-- @include doctor
local part = ARGV[4]

if not count then return refuse('the doctor looks at 1 to 1000 ids') end

-- Whether a runner has the job, or has had it and it waits to be run again.
local function has_begun(id)
  return redis.call('ZSCORE', READY, id) or redis.call('ZSCORE', UNACK, id)
    or redis.call('ZSCORE', RETRY, id)
end

local look = {}

look['opts'] = function(id, options)
  if redis.call('HEXISTS', JOBS, id) == 1 then
    find('options', id, options, '')
  elseif find('stray_options', id, 'no such job', 'removed') then
    redis.call('HDEL', OPTS, id)
  end
end

look['attempts'] = function(id, attempts)
  local is_number = string.find(attempts, '^%d+$')
  if is_number and (has_begun(id) or redis.call('HEXISTS', BLOCKED_AT, id) == 1) then return end
  local detail = is_number and 'attempts of no job that has begun' or 'attempts that are no number'
  if find('stray_attempts', id, detail, 'removed') then redis.call('HDEL', ATTEMPTS, id) end
end

look['errors'] = function(id)
  if has_begun(id) or redis.call('HEXISTS', BLOCKED_AT, id) == 1 then return end
  if find('stray_attempts', id, 'an error of no job that has begun', 'removed') then
    redis.call('HDEL', ERRORS, id)
  end
end

look['turns:of'] = function(id, turn)
  if not string.find(turn, '^%d+ .') then
    if find('stray_turn', id, 'a turn that cannot be read', 'removed') then
      redis.call('HDEL', TURNS_OF, id)
    end
  elseif not has_begun(id) then
    if find('stray_turn', id, 'held by no job', 'given to the next') then leave_turn(id) end
  end
end

-- Ten years, which is the longest that a topic can ask for, and some more.
local HOLD_MAX_MS = 3.2e11

look['unique'] = function(id, held_until)
  if tonumber(held_until) <= now_ms + HOLD_MAX_MS then return end
  if find('bad_score', id, 'held until ' .. held_until, 'let go') then redis.call('ZREM', UNIQUE, id) end
end

local KEY = ({
  opts = OPTS, attempts = ATTEMPTS, errors = ERRORS, ['turns:of'] = TURNS_OF, unique = UNIQUE,
})[part]
if not KEY then return refuse('the doctor knows no part ' .. tostring(part)) end
local page = read_page(KEY == UNIQUE and 'ZSCAN' or 'HSCAN', KEY)
for i = 1, #page, 2 do
  if not seen[page[i]] then look[part](page[i], page[i + 1]) end
  seen[page[i]] = true
end
if let_through > 0 then wake(now_ms) end
return answer
