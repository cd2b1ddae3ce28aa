-- Finds places in a sorted set: entries are ordered by score, then by member, byte by byte, as Redis sorts.
local function is_before(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = string.byte(one, i), string.byte(other, i)
    if a ~= b then return a < b end
  end
  return #one < #other
end

-- Entries before this place, the lowest first. The member need not exist.
local function rank_of(entries, score, member)
  local low = redis.call('ZCOUNT', entries, '-inf', '(' .. score)
  local high = low + redis.call('ZCOUNT', entries, score, score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_before(redis.call('ZRANGE', entries, middle, middle)[1], member) then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- The rank after this place, whether its member exists or not.
local function rank_after(entries, score, member)
  local is_there = tonumber(redis.call('ZSCORE', entries, member) or '') == tonumber(score)
  return rank_of(entries, score, member) + (is_there and 1 or 0)
end
