-- Readings of meters before the rollout, in the schema `metering`. No other table refers to them.
CREATE TABLE reading (
  id        BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  sensor_no SMALLINT        NOT NULL,
  amount    INT             NOT NULL DEFAULT 0,
  state     VARCHAR(12)     NOT NULL DEFAULT 'raw',
  note      VARCHAR(120)    NULL,
  taken_at  DATETIME(3)     NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  PRIMARY KEY (id),
  KEY reading_sensor_taken_idx (sensor_no, taken_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_0900_ai_ci;
