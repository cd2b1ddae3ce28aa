-- Redis does not roll a script back. A script calls these before its first write: they raise an error if a
-- key that it may write has a wrong type, so that nothing has changed.
local function expect(command, keys)
  -- Most keys are missing most of the time.
  if #keys > 1 and redis.call('EXISTS', unpack(keys)) == 0 then return end
  for _, key in ipairs(keys) do redis.call(command, key) end
end
local function expect_hashes(...) expect('HLEN', { ... }) end
local function expect_zsets(...) expect('ZCARD', { ... }) end
