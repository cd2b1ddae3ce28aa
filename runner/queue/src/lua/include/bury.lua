-- Writes jobs to dead: the payload, the options if there are any, and what each died of.
-- A death is id, payload, options, info.
-- @include now
local function bury(deaths)
  if #deaths == 0 then return end
  local now = whole(now_ms)
  local times, payloads, infos, options, without = {}, {}, {}, {}, {}
  for i, death in ipairs(deaths) do
    local key, value = 2 * i - 1, 2 * i
    times[key], times[value] = now, death.id
    payloads[key], payloads[value] = death.id, death.payload
    infos[key], infos[value] = death.id, death.info
    if death.options then
      options[#options + 1] = death.id
      options[#options + 1] = death.options
    else
      without[#without + 1] = death.id
    end
  end
  redis.call('ZADD', DEAD, unpack(times))
  redis.call('HSET', DEAD_JOBS, unpack(payloads))
  if #options > 0 then redis.call('HSET', DEAD_OPTS, unpack(options)) end
  -- One buried before under the same id may have had options.
  if #without > 0 then redis.call('HDEL', DEAD_OPTS, unpack(without)) end
  redis.call('HSET', DEAD_INFO, unpack(infos))
end
