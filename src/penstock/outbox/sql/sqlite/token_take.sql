-- Take tokens in the caller's transaction, those that are free; takes the writer's place, walks the primary key.
INSERT INTO penstock_token (token, id, created_ms) VALUES (?, ?, ?) ON CONFLICT (token) DO NOTHING;
