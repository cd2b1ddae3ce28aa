-- What the manifest says of the topic, as `configure` wrote it; absent is off.
local field = redis.call('HMGET', META, 'paused', 'per_key', 'order', 'max_pending', 'max_running',
  'rate', 'burst', 'tat', 'ttl', 'priorities', 'waiting')
local rules = {
  paused = field[1] and field[1] ~= '0',
  per_key = tonumber(field[2] or '') or 0,
  relaxed = field[3] == 'relaxed',
  max_pending = tonumber(field[4] or '') or 0,
  max_running = tonumber(field[5] or '') or 0,
  rate_us = tonumber(field[6] or ''),
  burst = tonumber(field[7] or '') or 1,
  tat = tonumber(field[8] or '') or 0,
  ttl = tonumber(field[9] or '') or 0,
  shares_out = field[10] == '1',
  waiting = field[11],
}
