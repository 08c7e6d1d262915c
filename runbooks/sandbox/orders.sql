-- The shop's orders before the rollout, and what hangs on them, in the schema `shop`.
CREATE TABLE orders (
  tenant_id  BIGINT UNSIGNED NOT NULL,
  order_no   INT             NOT NULL,
  status     VARCHAR(16)     NOT NULL DEFAULT 'new',
  timeout_s  INT             NOT NULL DEFAULT 30,
  note       TEXT            NULL,
  total      DECIMAL(12, 2)  NOT NULL DEFAULT 0.00,
  placed_at  DATETIME(6)     NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  changed_at DATETIME(3)     NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
  PRIMARY KEY (tenant_id, order_no),
  KEY orders_tenant_status_idx (tenant_id, status, placed_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_0900_as_cs;

CREATE TABLE order_line (
  tenant_id BIGINT UNSIGNED NOT NULL,
  order_no  INT             NOT NULL,
  line_no   SMALLINT        NOT NULL,
  article   VARCHAR(40)     NOT NULL,
  quantity  INT             NOT NULL DEFAULT 1,
  PRIMARY KEY (tenant_id, order_no, line_no),
  CONSTRAINT order_line_order_fk FOREIGN KEY (tenant_id, order_no) REFERENCES orders (tenant_id, order_no)
    ON DELETE CASCADE ON UPDATE RESTRICT
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_0900_as_cs;

-- Each application counts its requests and errors by the second (UTC); the gate app-errors reads it.
CREATE TABLE AppHealth (
  app      VARCHAR(32) NOT NULL,
  second   DATETIME    NOT NULL,
  requests INT         NOT NULL DEFAULT 0,
  errors   INT         NOT NULL DEFAULT 0,
  PRIMARY KEY (app, second)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_0900_ai_ci;
