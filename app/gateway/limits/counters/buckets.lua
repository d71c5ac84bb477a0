-- Buckets as the operations of a batch see them: each is read once, and written once, at the end, if an operation has changed it.
--
-- Lua makes its functions anew in each call, and each local variable that they use costs as much as a small function: so there are few.
-- KEYS and ARGV: see batch.lua.
local operations = cmsgpack.unpack(ARGV[1])
local lease, bucket_count = operations[1], operations[2]
local found
if #KEYS <= MAX_UNPACKED then
  found = redis.call('MGET', unpack(KEYS))
else
  found = {}
  for first = 1, #KEYS, MAX_UNPACKED do
    for index, value in ipairs(redis.call('MGET', unpack(KEYS, first, math.min(first + MAX_UNPACKED - 1, #KEYS)))) do
      found[first + index - 1] = value
    end
  end
end

local born  -- the start of the epoch, once it is needed
-- values: rings, with their sums in `sums`, and calendars. kept_ms: of those that are to be written, for how long they are kept;
-- renewed: those that are not kept for as long already.
local values, sums, kept_ms, renewed = {}, {}, {}, {}
-- How many are held (false: not counted yet), how many operations added one, and the mean time for which they were held (false: not known,
-- nil: not read yet), now and as it is stored.
local leases = {}
-- By key: as they are stored, 'x' for a cancelled one, a table for one that is to be written, false for one that has ended.
local reservations = {}

local function read_ring(bucket, width)
  local ring, is_older = ring_at(found[bucket + 1], math.floor(now / width))
  local sum = 0
  for place = 2, SLOTS + 1 do
    sum = sum + ring[place]
  end
  values[bucket], sums[bucket], renewed[bucket] = ring, sum, is_older
  return ring
end

local function read_calendar(bucket)
  local raw = found[bucket + 1]
  local calendar = raw and cmsgpack.unpack(raw)
  if calendar and calendar[7] then
    with_quarters(calendar)
  end
  values[bucket] = calendar
  return calendar
end

local function read_leases(bucket)
  local held = {false, 0, nil, nil}
  leases[bucket] = held
  return held
end

local function mean_of(held, bucket)
  if held[3] == nil then
    local stored = redis.call('ZSCORE', KEYS[bucket + 1], '~')  -- below 0, so that it is never counted
    held[3] = stored and math.ceil(-stored)
    held[4] = held[3]
  end
  return held[3]
end
