-- The tables of the job service as they stand before the rollout: what `rollout sandbox up` makes, in the schema `app`.
CREATE TABLE User (
  id    VARCHAR(191) NOT NULL,
  email VARCHAR(191) NOT NULL,
  PRIMARY KEY (id),
  UNIQUE KEY User_email_key (email)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_unicode_ci;

CREATE TABLE Snapshot (
  id        VARCHAR(191) NOT NULL,
  body      JSON         NOT NULL,
  createdAt DATETIME(3)  NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_unicode_ci;

CREATE TABLE AiAnalysisJob (
  id             VARCHAR(191) NOT NULL,
  userId         VARCHAR(191) NOT NULL,
  sessionId      VARCHAR(191) NULL,
  answerId       VARCHAR(191) NULL,
  status         VARCHAR(32)  NOT NULL DEFAULT 'pending',
  retryCount     INT          NOT NULL DEFAULT 0,
  maxRetryCount  INT          NOT NULL DEFAULT 3,
  timeoutSeconds INT          NOT NULL DEFAULT 120,
  errorMessage   TEXT         NULL,
  resultJson     JSON         NULL,
  createdAt      DATETIME(3)  NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  updatedAt      DATETIME(3)  NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
  completedAt    DATETIME(3)  NULL,
  PRIMARY KEY (id),
  KEY AiAnalysisJob_userId_createdAt_idx (userId, createdAt),
  KEY AiAnalysisJob_status_idx (status),
  CONSTRAINT AiAnalysisJob_userId_fkey FOREIGN KEY (userId) REFERENCES User (id) ON DELETE CASCADE ON UPDATE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_unicode_ci;

-- What a job made goes with it; what it cost stays.
CREATE TABLE Artifact (
  id    VARCHAR(191) NOT NULL,
  jobId VARCHAR(191) NOT NULL,
  kind  VARCHAR(32)  NOT NULL,
  uri   VARCHAR(512) NOT NULL,
  PRIMARY KEY (id),
  KEY Artifact_jobId_idx (jobId),
  CONSTRAINT Artifact_jobId_fkey FOREIGN KEY (jobId) REFERENCES AiAnalysisJob (id) ON DELETE CASCADE ON UPDATE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_unicode_ci;

CREATE TABLE UsageLog (
  id        VARCHAR(191) NOT NULL,
  jobId     VARCHAR(191) NULL,
  tokens    INT          NOT NULL,
  createdAt DATETIME(3)  NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  PRIMARY KEY (id),
  KEY UsageLog_jobId_idx (jobId),
  CONSTRAINT UsageLog_jobId_fkey FOREIGN KEY (jobId) REFERENCES AiAnalysisJob (id) ON DELETE SET NULL ON UPDATE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_unicode_ci;

-- Each application counts its requests and errors by the second (UTC); the gate app-errors reads it.
CREATE TABLE AppHealth (
  app      VARCHAR(32) NOT NULL,
  second   DATETIME    NOT NULL,
  requests INT         NOT NULL DEFAULT 0,
  errors   INT         NOT NULL DEFAULT 0,
  PRIMARY KEY (app, second)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_0900_ai_ci;
