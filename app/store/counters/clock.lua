-- The server's clock, in ms: the only one that counts. Tests put another in its place.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
