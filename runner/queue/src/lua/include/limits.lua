-- Limits of the topic (`configure` writes them) and its state (`paused`, `tat`, `waiting`), from `meta`.
local limits_of_topic = redis.call('HMGET', META, 'paused', 'per_key', 'order', 'max_pending', 'max_running',
  'rate', 'burst', 'tat', 'ttl', 'priorities', 'waiting', 'wake')
local limits = {
  paused = limits_of_topic[1] and limits_of_topic[1] ~= '0',
  per_key = tonumber(limits_of_topic[2] or '') or 0,
  relaxed = limits_of_topic[3] == 'relaxed',
  max_pending = tonumber(limits_of_topic[4] or '') or 0,
  max_running = tonumber(limits_of_topic[5] or '') or 0,
  rate_us = tonumber(limits_of_topic[6] or ''),
  burst = tonumber(limits_of_topic[7] or '') or 1,
  tat = tonumber(limits_of_topic[8] or '') or 0,
  ttl = tonumber(limits_of_topic[9] or '') or 0,
  priorities_share = limits_of_topic[10] == '1',
  waiting = limits_of_topic[11],
  -- As the script found it.
  wake = tonumber(limits_of_topic[12] or ''),
}
