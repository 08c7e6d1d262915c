-- What the contract of runbooks/documents.yaml adds.
ALTER TABLE document ADD COLUMN `stage` varchar(24) NULL;
ALTER TABLE document ADD COLUMN `byte_count` bigint unsigned NULL;
ALTER TABLE document ADD COLUMN `locale` varchar(35) CHARACTER SET ascii COLLATE ascii_general_ci NULL;
ALTER TABLE document ADD COLUMN `archived_at` datetime(3) NULL;
ALTER TABLE document ADD INDEX `document_stage_created_idx` (`stage`, `created_at`);
ALTER TABLE document ADD INDEX `document_archived_idx` (`archived_at`);
