-- Takes tokens from a bucket.
-- KEYS[1]: the bucket. ARGV: tokens a second, the most that it holds, what is to be left in it, how many are wanted.
-- Returns how many were taken, how many are left, and after how many milliseconds there will be one if none was taken.
local rate, most, reserve, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local state = redis.call('HMGET', KEYS[1], 'tokens', 'at', 'rests_until')
local tokens, at = tonumber(state[1]) or most, tonumber(state[2]) or now
-- Until then nothing comes; for a minute at most, whatever becomes of the clock.
local rests_until = math.min(tonumber(state[3]) or 0, now + 60000000)
local rest = math.max(0, rests_until - now) / 1000
-- A clock that was set back fills nothing.
tokens = math.min(most, tokens + math.max(0, now - math.max(at, rests_until)) * rate / 1000000)
local taken = 0
if rest == 0 then
    taken = math.max(0, math.min(wanted, math.floor(tokens - reserve)))
end
tokens = tokens - taken
redis.call('HSET', KEYS[1], 'tokens', string.format('%.6f', tokens), 'at', string.format('%.0f', now))
-- Once it is full, forgetting it changes nothing.
redis.call('PEXPIRE', KEYS[1], math.ceil(rest + (most - tokens) * 1000 / rate) + 1000)
local wait = 0
if taken == 0 then
    wait = math.ceil(rest + (1 + reserve - tokens) * 1000 / rate)
end
return { taken, math.max(0, math.floor(tokens)), wait }
