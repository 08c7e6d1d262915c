-- The archive's documents before the rollout, in the schema `docs`.
CREATE TABLE document (
  id         BINARY(16)                         NOT NULL,
  title      VARCHAR(200)                       NOT NULL,
  kind       ENUM ('draft', 'review', 'public') NOT NULL DEFAULT 'draft',
  size_b     INT UNSIGNED                       NULL,
  body       MEDIUMTEXT                         NULL,
  created_at DATETIME(3)                        NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  updated_at DATETIME(3)                        NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
  PRIMARY KEY (id),
  KEY document_kind_created_idx (kind, created_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_0900_ai_ci;
