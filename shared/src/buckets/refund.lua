-- Returns tokens that were taken and not used. KEYS[1]: the bucket. ARGV: capacity, tokens.
local tokens = redis.call('HGET', KEYS[1], 'tokens')
if tokens then
    tokens = math.min(tonumber(ARGV[1]), tonumber(tokens) + tonumber(ARGV[2]))
    redis.call('HSET', KEYS[1], 'tokens', string.format('%.6f', tokens))
end
