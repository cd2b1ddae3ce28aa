-- Tells sleeping runners of a due time earlier than the one they wait for.
local function wake(meta, channel, due)
  local waited_for = tonumber(redis.call('HGET', meta, 'wake') or '')
  if not waited_for or due < waited_for then
    redis.call('HSET', meta, 'wake', whole(due))
    redis.call('PUBLISH', channel, whole(due))
  end
end
