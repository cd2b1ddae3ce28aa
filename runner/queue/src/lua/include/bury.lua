-- Writes a job to dead: its payload, its options if it has any, and what it died of.
local function bury(dead, jobs, opts, infos, id, payload, options, info)
  redis.call('ZADD', dead, whole(now_ms), id)
  redis.call('HSET', jobs, id, payload)
  redis.call('HSET', infos, id, info)
  if options then
    redis.call('HSET', opts, id, options)
  else
    redis.call('HDEL', opts, id)
  end
end
