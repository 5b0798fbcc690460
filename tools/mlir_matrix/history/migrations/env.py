"""Run migrations on the connection of a store, in its transaction: Alembic imports this file."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
context.run_migrations()
