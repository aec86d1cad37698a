-- Take a token in the caller's transaction if it is free; waits for a transaction that has taken it and not ended.
INSERT INTO penstock_token (token, id, created_ms) VALUES (%s, %s, %s) ON CONFLICT (token) DO NOTHING;
