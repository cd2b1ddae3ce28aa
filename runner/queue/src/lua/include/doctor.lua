-- What the doctor's scripts share: a page of a key under a cursor, the findings on it, and their repair.
-- The page is read and repaired in one script, so no other client interferes. ARGV begins with cursor,
-- count, repair (1 or 0).
-- @include number
local cursor, count, repairs = ARGV[1], read_whole(ARGV[2], 1, BATCH_MAX), ARGV[3] == '1'
-- A reply begins with the next cursor and the bytes that were read: the caller chooses the next count by them.
local reply, seen = { '0', 0 }, {}

-- The page of a hash or a zset as a flat list, each member followed by its value or score. A member
-- may come twice.
local function read_page(command, key)
  local page = redis.call(command, key, cursor, 'COUNT', count)
  reply[1] = page[1]
  for _, text in ipairs(page[2]) do reply[2] = reply[2] + #text end
  return page[2]
end

-- The same for the names of a hash alone. Redis before 7.4 reads their values too.
local function read_names(key)
  if redis.REDIS_VERSION_NUM >= 0x00070400 then
    local page = redis.call('HSCAN', key, cursor, 'COUNT', count, 'NOVALUES')
    reply[1] = page[1]
    return page[2]
  end
  local page, names = read_page('HSCAN', key), {}
  for i = 1, #page, 2 do names[#names + 1] = page[i] end
  return names
end

-- Reports a finding; true if the caller must repair it. A finding without a remedy is only reported.
local function find(kind, id, detail, remedy)
  local fixes = repairs and remedy ~= ''
  local last = #reply
  reply[last + 1], reply[last + 2], reply[last + 3] = kind, id, detail
  reply[last + 4] = fixes and remedy or ''
  return fixes
end

-- True for a time in unix milliseconds.
local function is_time(score) return score >= DUE_MIN and score <= DUE_MAX end
