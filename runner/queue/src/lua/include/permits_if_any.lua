-- Permits limit how many jobs of one key run at once. At most `per_key` jobs of a key hold a permit: they
-- are in ready or unack, or in retry while the order is strict. Other due jobs of the key wait in its queue
-- in `blocked`, ordered by due time and push. The queue waits only while all permits of its key are held.
--
-- To define a function takes time in each call, so most are defined only where a permit may be held or taken:
-- they are called only if `has_permits`. What calls them otherwise includes `permits`.
-- @include now
-- @include option
-- @include limits
-- @include ready
-- @include types
local has_permits = limits.per_key > 0 or redis.call('EXISTS', TURNS_OF) == 1
local admitted = 0

local function expect_permits()
  if not has_permits and limits.per_key == 0 then return end
  expect_hashes(OPTS, BLOCKED_AT, TURNS, TURNS_OF)
  expect_zsets(READY, BLOCKED)
end

local permits_of, key_of_permit, take_permit, first_in_queue, join_queue
local advance, return_permit, leave_queue, admit

local function define_permits()
  -- How many permits of a key are held; a text that is not a number, written by hand, counts as 0.
  function permits_of(key) return tonumber(redis.call('HGET', TURNS, key) or '') or 0 end

  -- The key of the permit that a job holds; nil if it holds none, or its text is unreadable.
  function key_of_permit(permit)
    local space = permit and string.find(permit, ' ', 1, true)
    return space and string.sub(permit, space + 1)
  end

  function take_permit(id, due, key)
    redis.call('HSET', TURNS, key, whole(permits_of(key) + 1))
    redis.call('HSET', TURNS_OF, id, whole(math.floor(due)) .. ' ' .. key)
  end

  -- The first job in a key's queue: member, due, id.
  function first_in_queue(key)
    local first = redis.call('ZRANGEBYLEX', BLOCKED, '[' .. key .. '\0', '(' .. key .. '\1', 'LIMIT', 0, 1)[1]
    if not first then return nil end
    local at = #key + 2
    return first, tonumber(string.sub(first, at, at + 14)), string.sub(first, at + 33)
  end

  -- Admits the first jobs of a key's queue while permits are free. They enter ready behind what is due
  -- already, so that a busy key does not delay other jobs.
  function advance(key)
    local most = limits.per_key > 0 and limits.per_key or math.huge
    local held = permits_of(key)
    for _ = 1, 100 do
      if held >= most then return end
      local member, due, id = first_in_queue(key)
      if not member then return end
      redis.call('ZREM', BLOCKED, member)
      redis.call('HDEL', BLOCKED_AT, id)
      take_permit(id, due, key)
      local since = now_ms + priority_shift(redis.call('HGET', OPTS, id))
      redis.call('ZADD', READY, score_in(READY, since, id), id)
      held, admitted = held + 1, admitted + 1
    end
  end

  -- Returns the permit of a job, if it holds one, to the next in the queue.
  function return_permit(id)
    local permit = redis.call('HGET', TURNS_OF, id)
    if not permit then return end
    redis.call('HDEL', TURNS_OF, id)
    local key = key_of_permit(permit)
    if not key then return end
    local left = permits_of(key) - 1
    if left > 0 then redis.call('HSET', TURNS, key, whole(left)) else redis.call('HDEL', TURNS, key) end
    advance(key)
  end

  -- Removes a job from its key's queue, if it waits there.
  function leave_queue(id)
    local member = redis.call('HGET', BLOCKED_AT, id)
    if not member then return false end
    redis.call('HDEL', BLOCKED_AT, id)
    redis.call('ZREM', BLOCKED, member)
    return true
  end

  function join_queue(id, due, key)
    local seq = (tonumber(redis.call('HGET', META, 'seq') or '') or 0) + 1
    redis.call('HSET', META, 'seq', whole(seq))
    local member = key .. '\0' .. string.format('%015.0f', math.floor(due)) .. '\0' .. string.format('%016.0f', seq)
      .. '\0' .. id
    redis.call('ZADD', BLOCKED, 0, member)
    redis.call('HSET', BLOCKED_AT, id, member)
  end

  -- Puts a due job that is in no state into ready, or into its key's queue. Returns the state. Without a
  -- score it goes behind the other jobs of its millisecond.
  function admit(id, due, options, score)
    local key = limits.per_key > 0 and option(options, 'key', 'string')
    if has_permits or key then
      local permit = redis.call('HGET', TURNS_OF, id)
      local keeps = key and key_of_permit(permit) == key
      if permit and not keeps then return_permit(id) end
      if keeps then
        redis.call('HSET', TURNS_OF, id, whole(math.floor(due)) .. ' ' .. key)
      elseif key then
        if permits_of(key) >= limits.per_key or first_in_queue(key) then
          join_queue(id, due, key)
          advance(key)
          return redis.call('HEXISTS', BLOCKED_AT, id) == 1 and 'blocked' or 'ready'
        end
        take_permit(id, due, key)
      end
    end
    redis.call('ZADD', READY, score or score_in(READY, due + priority_shift(options), id), id)
    return 'ready'
  end
end
if has_permits then define_permits() end
