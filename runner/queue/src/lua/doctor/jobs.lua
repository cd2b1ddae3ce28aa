-- Examines one page of payloads: a payload in no state is an orphan, which would never run.
--
-- KEYS  jobs opts pending ready unack retry attempts errors meta blocked blocked:at turns turns:of dead dead:jobs dead:opts dead:info
-- ARGV  cursor, count, repair, info of an orphan ('' forgets it)
-- Returns the next cursor, the bytes read, then kind, id, detail, what was done or '' for each finding
-- @include now
-- @include wake
-- @include permits
-- @include waiting
-- @include doctor
-- @include doctor_job
local orphan_info = ARGV[4]

if not count or not orphan_info then return refuse('the doctor looks at 1 to 1000 payloads') end
expect_job_keys()
for _, id in ipairs(read_names(JOBS)) do
  if not seen[id] and not waits(id) and not redis.call('ZSCORE', UNACK, id) then
    local detail = 'in no stage, payload bytes: ' .. redis.call('HSTRLEN', JOBS, id)
    if find('orphan', id, detail, orphan_info == '' and 'forgotten' or 'buried') then
      bury_job(id, orphan_info)
    end
  end
  seen[id] = true
end
if admitted > 0 then wake(now_ms) end
return reply
