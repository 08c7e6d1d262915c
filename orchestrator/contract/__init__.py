"""The frozen contract against what a server, a DDL file or a Prisma schema says of the same table. Pure."""
