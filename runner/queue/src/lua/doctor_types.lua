-- Looks for keys of another type than the queue's. What stands in the way is renamed, so that nothing
-- is lost: `…:<name>:broken:<unix ms>`, in the same slot.
--
-- KEYS  jobs opts pending ready unack retry attempts errors meta holders blocked blocked:at turns turns:of dead dead:jobs dead:opts dead:info done done:jobs done:info done:result outbox inbox unique ticks
-- ARGV  cursor (0), count, repair, then the type that each key must have
-- Returns 0, then kind, key, detail, what was done or '' for each finding

for i, key in ipairs(KEYS) do
  local wanted, found = ARGV[3 + i], redis.call('TYPE', key).ok
  local broken = key .. ':broken:' .. whole(now_ms)
  if found ~= wanted and found ~= 'none' then
    if find('wrong_type', key, 'a ' .. found .. ', and no ' .. wanted, 'renamed to ' .. broken) then
      redis.call('RENAMENX', key, broken)
    end
  end
end
return answer
