-- Examines the key-value store: one page of revisions or expiries, or the count of its bytes. What belongs
-- to no value is removed; values are not touched.
--
-- KEYS  kv kv:rev kv:at meta
-- ARGV  cursor, count, repair, part (kv:rev, kv:at, bytes), for bytes the most names that are counted
-- Returns the next cursor ('many' where there are too many names to count), the bytes read, then kind, name, detail, what
--         was done or '' for each finding
-- @include now
-- @include number
-- @include doctor
-- @include types
local part, most = ARGV[4], read_whole(ARGV[5], 0, 1e6)
-- The longest ttl is ten years; this is a little more.
local TTL_MAX_MS = 3.2e11

if not count then return refuse('the doctor looks at 1 to 1000 ids') end

local function count_bytes()
  if redis.call('HLEN', KV) > most then
    reply[1] = 'many'
    return
  end
  local bytes = 0
  for _, name in ipairs(redis.call('HKEYS', KV)) do
    bytes = bytes + #name + redis.call('HSTRLEN', KV, name)
  end
  local counted = redis.call('HGET', META, 'kv_bytes') or '0'
  if tonumber(counted) == bytes then return end
  if find('wrong_bytes', 'kv_bytes', counted .. ' counted, ' .. whole(bytes) .. ' there', 'counted anew') then
    if bytes > 0 then
      redis.call('HSET', META, 'kv_bytes', whole(bytes))
    else
      redis.call('HDEL', META, 'kv_bytes')
    end
  end
end

local look = {}

look['kv:rev'] = function(name)
  if redis.call('HEXISTS', KV, name) == 1 then return end
  if find('store_parts', name, 'a revision without a value', 'removed') then
    redis.call('HDEL', KV_REV, name)
  end
end

look['kv:at'] = function(name, at)
  if redis.call('HEXISTS', KV, name) == 0 then
    if find('store_parts', name, 'an expiry without a value', 'removed') then redis.call('ZREM', KV_AT, name) end
  elseif tonumber(at) > now_ms + TTL_MAX_MS then
    if find('bad_score', name, 'a value kept until ' .. at, 'kept without expiry') then
      redis.call('ZREM', KV_AT, name)
    end
  end
end

expect_hashes(KV, KV_REV, META)
expect_zsets(KV_AT)
if part == 'bytes' then
  count_bytes()
  return reply
end
if not look[part] then return refuse('the doctor knows no part ' .. tostring(part)) end
local page = part == 'kv:at' and read_page('ZSCAN', KV_AT) or read_page('HSCAN', KV_REV)
for i = 1, #page, 2 do
  if not seen[page[i]] then look[part](page[i], page[i + 1]) end
  seen[page[i]] = true
end
return reply
