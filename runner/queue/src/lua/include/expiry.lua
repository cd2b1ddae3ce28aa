-- True if a value of the store has expired. No verb sees it then, even before it is deleted.
-- @include now
local function has_expired(name)
  local at = redis.call('ZSCORE', KV_AT, name)
  return at and tonumber(at) <= now_ms
end
