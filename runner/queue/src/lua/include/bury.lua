-- Writes jobs to dead: payload, options if any, and the cause. A death has the fields id, payload, options,
-- info.
-- @include keep
-- @include now
-- @include types
local function expect_dead()
  expect_hashes(DEAD_JOBS, DEAD_OPTS, DEAD_INFO)
  expect_zsets(DEAD)
end

-- A dead job replaces an earlier one of its id. Its info then says how many have died.
local function count_deaths(deaths)
  local ids = {}
  for i, death in ipairs(deaths) do ids[i] = death.id end
  for i, earlier in ipairs(redis.call('HMGET', DEAD_INFO, unpack(ids))) do
    local fields = earlier and string.match(deaths[i].info, '^{(.*)}$')
    if fields then
      local number = tonumber(string.match(earlier, '[{,]"deaths":(%d+)}$') or 1) + 1
      local comma = fields == '' and '' or ','
      deaths[i].info = '{' .. fields .. comma .. '"deaths":' .. whole(number) .. '}'
    end
  end
end

local function bury(deaths)
  if #deaths == 0 then return end
  count_deaths(deaths)
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
  -- An earlier dead job of this id may have had options.
  if #without > 0 then redis.call('HDEL', DEAD_OPTS, unpack(without)) end
  redis.call('HSET', DEAD_INFO, unpack(infos))
  keep_newest(DEAD, { DEAD_JOBS, DEAD_OPTS, DEAD_INFO }, #deaths)
end
