-- A lease call has two tokens, both its expiry in µs: an even one for jobs that start at once, and the next
-- odd one for jobs leased ahead. Extending a lease makes its token even: only a started job is held that
-- long.
-- @include now
local function is_ahead(token) return tonumber(token) % 2 == 1 end
local function token_at(us) return us + us % 2 end
local function extended_token(token, delta_ms)
  local us = tonumber(token)
  return whole(us - us % 2 + delta_ms * 1000)
end
