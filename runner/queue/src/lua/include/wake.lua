-- Wakes sleeping runners if this due time is earlier than the one they wait for. The channel's name is that
-- of the key `meta` with `wake` in its place.
-- @include now
local CHANNEL = string.sub(META, 1, -5) .. 'wake'
local function wake(due)
  local waited_for = tonumber(redis.call('HGET', META, 'wake') or '')
  if not waited_for or due < waited_for then
    redis.call('HSET', META, 'wake', whole(due))
    redis.call('PUBLISH', CHANNEL, whole(due))
  end
end
