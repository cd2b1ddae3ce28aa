-- Writing to the topic's store: `kv` has the values, `kv:rev` which writing each of them is, `kv:at` when
-- the time of some is over, and `kv_bytes` of `meta` what names and values take together.
-- Values that are taken away in one call because their time is over: by the way, and to make room.
-- @include now
local SWEPT, SWEPT_FOR_ROOM = 100, 900

local function add_bytes(more)
  if more ~= 0 and redis.call('HINCRBY', META, 'kv_bytes', whole(more)) <= 0 then
    redis.call('HDEL', META, 'kv_bytes')
  end
end

-- Bytes that are counted for a name; nil if nothing is under it.
local function size_of(name)
  if redis.call('HEXISTS', KV, name) == 0 then return nil end
  return #name + redis.call('HSTRLEN', KV, name)
end

local function forget_values(names)
  local freed = 0
  for _, name in ipairs(names) do
    freed = freed + (size_of(name) or 0)
    redis.call('HDEL', KV, name)
    redis.call('HDEL', KV_REV, name)
    redis.call('ZREM', KV_AT, name)
  end
  add_bytes(-freed)
end

-- Takes away up to n values whose time is over. Returns how many there were.
local function sweep_values(n)
  local over = redis.call('ZRANGEBYSCORE', KV_AT, '-inf', whole(now_ms), 'LIMIT', 0, n)
  forget_values(over)
  return #over
end

-- Whether the bounds hold with this many bytes under a name, in place of what is counted for it now.
local function has_room(name, size)
  local old = size_of(name)
  local names = redis.call('HLEN', KV) + (old and 0 or 1)
  local bytes = tonumber(redis.call('HGET', META, 'kv_bytes') or 0) or 0
  return names <= KV_NAMES_MAX and bytes - (old or 0) + size <= KV_BYTES_MAX
end

-- The same, after values whose time is over have made room. Returns nil if there is room, 'full', or
-- 'again' where more of them may be taken away by another call.
local function refusal(name, size)
  if has_room(name, size) then return nil end
  local swept = sweep_values(SWEPT_FOR_ROOM)
  if has_room(name, size) then return nil end
  return swept == SWEPT_FOR_ROOM and 'again' or 'full'
end

-- A revision that this name never had: the clock, or one more where that has not moved.
local function next_revision(name)
  local last = tonumber(redis.call('HGET', KV_REV, name) or 0) or 0
  return whole(math.max(now_us, last + 1))
end

-- Writes a value for which there is room, to be kept until a time or, without one, for ever.
local function keep_value(name, value, at)
  local old, revision = size_of(name), next_revision(name)
  redis.call('HSET', KV, name, value)
  redis.call('HSET', KV_REV, name, revision)
  if at then
    redis.call('ZADD', KV_AT, whole(at), name)
  else
    redis.call('ZREM', KV_AT, name)
  end
  add_bytes(#name + #value - (old or 0))
end

local function is_name(name) return name and #name >= 1 and #name <= KV_NAME_BYTES_MAX end
