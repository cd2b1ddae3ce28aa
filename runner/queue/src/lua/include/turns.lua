-- Jobs of one key take turns. At most `per_key` of them hold one: they are in ready or unack, or in
-- retry while the order is strict. The others that are due wait in the key's line in `blocked`, in the
-- order in which they fell due and were pushed. A line waits only while all turns of its key are held.
-- @include now
-- @include option
-- @include rules
-- @include ready
local gated = rules.per_key > 0 or redis.call('EXISTS', TURNS_OF) == 1
local let_through = 0

local function take_turn(id, due, key)
  redis.call('HINCRBY', TURNS, key, 1)
  redis.call('HSET', TURNS_OF, id, whole(due) .. ' ' .. key)
end

-- The first of a key's line: member, due, id.
local function first_in_line(key)
  local first = redis.call('ZRANGEBYLEX', BLOCKED, '[' .. key .. '\0', '(' .. key .. '\1', 'LIMIT', 0, 1)[1]
  if not first then return nil end
  local at = #key + 2
  return first, tonumber(string.sub(first, at, at + 14)), string.sub(first, at + 33)
end

-- Lets the first of a key's line through while a turn is free. They queue up in ready behind what is
-- due already, so that one busy key does not hold up the others.
local function advance(key)
  local most = rules.per_key > 0 and rules.per_key or math.huge
  local taken = tonumber(redis.call('HGET', TURNS, key) or 0)
  for _ = 1, 100 do
    if taken >= most then return end
    local member, due, id = first_in_line(key)
    if not member then return end
    redis.call('ZREM', BLOCKED, member)
    redis.call('HDEL', BLOCKED_AT, id)
    take_turn(id, due, key)
    redis.call('ZADD', READY, ready_score(now_ms, redis.call('HGET', OPTS, id)), id)
    taken, let_through = taken + 1, let_through + 1
  end
end

-- Gives back the turn of a job, if it holds one, to the next in line.
local function leave_turn(id)
  local turn = redis.call('HGET', TURNS_OF, id)
  if not turn then return end
  local key = string.sub(turn, string.find(turn, ' ', 1, true) + 1)
  redis.call('HDEL', TURNS_OF, id)
  if redis.call('HINCRBY', TURNS, key, -1) <= 0 then redis.call('HDEL', TURNS, key) end
  advance(key)
end

-- Takes a job out of its line, if it stands in one.
local function leave_line(id)
  local member = redis.call('HGET', BLOCKED_AT, id)
  if not member then return false end
  redis.call('HDEL', BLOCKED_AT, id)
  redis.call('ZREM', BLOCKED, member)
  return true
end

local function join_line(id, due, key)
  local seq = redis.call('HINCRBY', META, 'seq', 1)
  local member = key .. '\0' .. string.format('%015.0f', due) .. '\0' .. string.format('%016.0f', seq)
    .. '\0' .. id
  redis.call('ZADD', BLOCKED, 0, member)
  redis.call('HSET', BLOCKED_AT, id, member)
end

-- Puts a due job that is in no stage into ready, or into its key's line. Returns the stage.
local function admit(id, due, options)
  local key = rules.per_key > 0 and option(options, 'key', 'string')
  if gated or key then
    local turn = redis.call('HGET', TURNS_OF, id)
    local keeps = turn and key and string.sub(turn, string.find(turn, ' ', 1, true) + 1) == key
    if turn and not keeps then leave_turn(id) end
    if keeps then
      redis.call('HSET', TURNS_OF, id, whole(due) .. ' ' .. key)
    elseif key then
      local taken = tonumber(redis.call('HGET', TURNS, key) or 0)
      if taken >= rules.per_key or first_in_line(key) then
        join_line(id, due, key)
        advance(key)
        return redis.call('HEXISTS', BLOCKED_AT, id) == 1 and 'blocked' or 'ready'
      end
      take_turn(id, due, key)
    end
  end
  redis.call('ZADD', READY, ready_score(due, options), id)
  return 'ready'
end
