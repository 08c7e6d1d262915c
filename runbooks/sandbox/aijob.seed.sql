-- Data for the sandbox. :rows and :seed are numbers; a statement that says :lo and :hi runs once for each thousand of :n,
-- so that no transaction is large. The same numbers give the same data, byte for byte.
--
-- Of 100 jobs 10 are pending, 5 processing, 65 completed, 20 failed. Values go to the edges that the mapping can carry.

INSERT INTO `User` (id, email)
WITH RECURSIVE s (n) AS (SELECT :lo UNION ALL SELECT n + 1 FROM s WHERE n < :hi)
SELECT CONCAT('user-', LPAD(n, 6, '0')), CONCAT('user', n, IF(n % 7 = 0, '+büro', ''), '@example.test')
FROM s WHERE n <= CEIL(:rows / 20);

INSERT INTO Snapshot (id, body, createdAt)
WITH RECURSIVE s (n) AS (SELECT :lo UNION ALL SELECT n + 1 FROM s WHERE n < :hi)
SELECT CONCAT('snap-', LPAD(n, 6, '0')), JSON_OBJECT('n', n, 'text', IF(n % 5 = 0, '日本語 🚀', 'plain')),
       TIMESTAMP('2025-01-01') + INTERVAL n MINUTE
FROM s WHERE n <= CEIL(:rows / 10);

INSERT INTO AiAnalysisJob (id, userId, sessionId, answerId, status, retryCount, maxRetryCount, timeoutSeconds, errorMessage,
                           resultJson, createdAt, updatedAt, completedAt)
WITH RECURSIVE
  s (n) AS (SELECT :lo UNION ALL SELECT n + 1 FROM s WHERE n < :hi),
  r AS (SELECT n, CRC32(CONCAT(:seed, '/', n)) AS a, CRC32(CONCAT(n, '/', :seed, '/b')) AS b FROM s),
  j AS (SELECT r.*, CASE WHEN a % 100 < 10 THEN 'pending' WHEN a % 100 < 15 THEN 'processing'
                         WHEN a % 100 < 80 THEN 'completed' ELSE 'failed' END AS status,
               TIMESTAMP('2025-01-01') + INTERVAL (b % 40000000) SECOND + INTERVAL (a % 1000) * 1000 MICROSECOND AS born
        FROM r)
SELECT CONCAT(IF(b % 97 = 0, 'ジョブ-', 'job-'), LOWER(LPAD(HEX(a), 8, '0')), '-', n),
       CONCAT('user-', LPAD(1 + b % CEIL(:rows / 20), 6, '0')),
       IF(b % 3 = 0, NULL, CONCAT('session-', b % 5000)),
       IF(b % 5 < 3, NULL, CONCAT('answer-', a % 9000)),
       status,
       CASE WHEN b % 211 = 0 THEN 2147483647 WHEN b % 211 = 1 THEN -2147483648 ELSE b % 4 END,
       CASE WHEN b % 223 = 0 THEN 2147483647 WHEN b % 223 = 1 THEN 0 ELSE 3 + b % 3 END,
       CASE WHEN b % 227 = 0 THEN 2147483647 WHEN b % 227 = 1 THEN 0 WHEN b % 227 = 2 THEN 1 ELSE 30 * (1 + b % 10) END,
       CASE WHEN status <> 'failed' THEN IF(b % 400 = 0, '', NULL)
            WHEN b % 150 = 0 THEN REPEAT('🚀', 16383)
            WHEN b % 10 = 0 THEN REPEAT('Zeitüberschreitung im Schritt „prüfen“: 応答なし 🧪 ', 1 + b % 60)
            ELSE CONCAT('model said no (', a, '): it''s "50 %" \\ ', ELT(1 + b % 4, 'naïve', 'ошибка', '失敗', 'x')) END,
       CASE WHEN status <> 'completed' THEN NULL WHEN b % 50 = 0 THEN CAST('null' AS JSON)
            ELSE JSON_OBJECT('score', b % 100, 'note', IF(b % 9 = 0, '概要 – résumé', 'ok')) END,
       born,
       born + INTERVAL (a % 86400) SECOND,
       IF(status IN ('completed', 'failed'), born + INTERVAL (a % 80000) SECOND, NULL)
FROM j WHERE n <= :rows;

INSERT INTO Artifact (id, jobId, kind, uri)
WITH RECURSIVE
  s (n) AS (SELECT :lo UNION ALL SELECT n + 1 FROM s WHERE n < :hi),
  r AS (SELECT n, CRC32(CONCAT(:seed, '/', n)) AS a, CRC32(CONCAT(n, '/', :seed, '/b')) AS b FROM s)
SELECT CONCAT('art-', n), CONCAT(IF(b % 97 = 0, 'ジョブ-', 'job-'), LOWER(LPAD(HEX(a), 8, '0')), '-', n),
       ELT(1 + b % 3, 'report', 'trace', 'audio'), CONCAT('store://bucket/', n, '/結果.json')
FROM r WHERE n <= :rows AND n % 3 = 0;

INSERT INTO UsageLog (id, jobId, tokens, createdAt)
WITH RECURSIVE
  s (n) AS (SELECT :lo UNION ALL SELECT n + 1 FROM s WHERE n < :hi),
  r AS (SELECT n, CRC32(CONCAT(:seed, '/', n)) AS a, CRC32(CONCAT(n, '/', :seed, '/b')) AS b FROM s)
SELECT CONCAT('use-', n), IF(n % 20 = 0, NULL, CONCAT(IF(b % 97 = 0, 'ジョブ-', 'job-'), LOWER(LPAD(HEX(a), 8, '0')), '-', n)),
       b % 5000, TIMESTAMP('2025-01-01') + INTERVAL (b % 40000000) SECOND
FROM r WHERE n <= :rows AND n % 2 = 0;
