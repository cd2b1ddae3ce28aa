-- Writes to the key-value store of a topic. `kv` holds the values, `kv:rev` their revisions, `kv:at` the
-- expiry of some; `kv_bytes` of `meta` counts the bytes of names and values.
-- @include now
-- @include types
-- Expired values that one call deletes: with every write, and to free space.
local PRUNED, PRUNED_FOR_SPACE = 100, 900

local function add_bytes(more)
  if more == 0 then return end
  local bytes = (tonumber(redis.call('HGET', META, 'kv_bytes') or '') or 0) + more
  if bytes > 0 then
    redis.call('HSET', META, 'kv_bytes', whole(bytes))
  else
    redis.call('HDEL', META, 'kv_bytes')
  end
end

local function expect_store()
  expect_hashes(KV, KV_REV, META)
  expect_zsets(KV_AT)
end

-- Bytes that count for a name; nil if it has no value.
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

-- Deletes up to n expired values; returns their number.
local function prune_values(n)
  local over = redis.call('ZRANGEBYSCORE', KV_AT, '-inf', whole(now_ms), 'LIMIT', 0, n)
  forget_values(over)
  return #over
end

-- True if the store may hold this many bytes under a name, instead of its value now.
local function has_room(name, size)
  local old = size_of(name)
  local names = redis.call('HLEN', KV) + (old and 0 or 1)
  local bytes = tonumber(redis.call('HGET', META, 'kv_bytes') or 0) or 0
  return names <= KV_NAMES_MAX and bytes - (old or 0) + size <= KV_BYTES_MAX
end

-- Deletes expired values if space is needed. Returns nil if there is space, 'full', or 'again' if another
-- call may delete more.
local function refusal(name, size)
  if has_room(name, size) then return nil end
  local swept = prune_values(PRUNED_FOR_SPACE)
  if has_room(name, size) then return nil end
  return swept == PRUNED_FOR_SPACE and 'again' or 'full'
end

-- A revision that this name never had: the clock, or one more if that has not advanced.
local function next_revision(name)
  local last = tonumber(redis.call('HGET', KV_REV, name) or 0) or 0
  return whole(math.max(now_us, last + 1))
end

-- Writes a value that fits; without `at` it does not expire.
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
