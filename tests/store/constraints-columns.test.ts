/**
 * What a bug cannot store, one column or one key at a time. The cases are made from the schema itself: a new NOT NULL,
 * foreign key, unique index or simple CHECK is tried without a line here.
 */
import { afterAll, describe, expect, test } from "bun:test";
import { removeTempDirs } from "../support/temp.ts";
import { refusal } from "./world/refused.ts";
import { columnsOf, foreignKeysOf, indexesOf, tablesOf } from "./world/schema.ts";
import { simpleChecks } from "./world/simple-checks.ts";
import { KINDS, makeWorld, type Kind } from "./world/world.ts";

afterAll(removeTempDirs);

/** What the storage chapter lists. */
const TABLES: Record<Kind, string> = {
  user: `repos daemon_meta approval_presenters user_approval_challenges user_human_approvals user_approved_operations
    user_approved_operation_steps user_audit_log credentials harness_proof_runs harness_proofs`,
  repo: `threads thread_links thread_lifecycle_ops thread_lifecycle_steps thread_projection_issues agent_sessions
    launch_gates sync_intents sync_intent_triggers op_attribution op_history op_history_parents op_workspace_heads
    op_watch_frontier credentials approval_challenges human_approvals approved_operations approved_operation_steps
    audit_log events attention metadata_writes pr_links remote_plans tool_admissions stopped_processes thread_config
    thread_messages thread_changes transcript_offsets pending_kkd_prepends provider_egress_consents`,
};

for (const kind of KINDS) {
  const { bare, whole } = makeWorld(kind);
  const tables = tablesOf(bare);

  describe(`constraints of the ${kind} database`, () => {
    test("constraints: tables → those of the storage chapter, no more and no fewer", () => {
      expect(tables).toEqual(TABLES[kind].split(/\s+/).sort());
    });

    test("constraints: every table has a row to try them on, and obeys its foreign keys", () => {
      const empty = tables.filter((t) => bare.query(`SELECT 1 FROM ${t}`).get() === null);
      expect(empty).toEqual([]);
      for (const db of [bare, whole])
        expect(db.query("PRAGMA foreign_key_check").all()).toEqual([]);
    });

    for (const table of tables) {
      const required = columnsOf(bare, table).filter((c) => c.notNull && !c.rowid);
      test(`constraints: ${table} without ${required.map((c) => c.name).join(", ")} → refused`, () => {
        for (const { name } of required) {
          expect(refusal(bare, `UPDATE ${table} SET ${name} = NULL`)).toEqual({
            code: "SQLITE_CONSTRAINT_NOTNULL",
            what: `${table}.${name}`,
          });
        }
      });

      test(`constraints: ${table} with a value of another type → refused`, () => {
        for (const { name, type } of columnsOf(bare, table).filter((c) => c.type !== "TEXT")) {
          expect(refusal(bare, `UPDATE ${table} SET ${name} = 'letters'`)?.code).toMatch(
            type === "INTEGER" ? /^SQLITE_(CONSTRAINT_DATATYPE|MISMATCH)$/ : /^$/,
          );
        }
      });
    }

    for (const { table, text, bad } of simpleChecks(bare)) {
      test(`constraints: ${table} ${text} → ${bad.value} refused`, () => {
        expect(refusal(bare, `UPDATE ${table} SET ${bad.column} = ${bad.value}`)).toEqual({
          code: "SQLITE_CONSTRAINT_CHECK",
          what: text,
        });
      });
    }

    for (const key of foreignKeysOf(bare)) {
      const { table, columns, to } = key;
      test(`constraints: ${table}(${columns.join(", ")}) without its ${to} → refused`, () => {
        // The first column that no other key of the table shares: a thread's id is in many of them.
        const own = columns.find((c) => c !== "thread_id") ?? columns[0]!;
        const integer = columnsOf(bare, table).some((c) => c.name === own && c.type === "INTEGER");
        const set = `UPDATE ${table} SET ${own} = ${integer ? "99999" : "'nowhere'"} WHERE rowid = (SELECT rowid FROM ${table}
          WHERE ${columns.map((c) => `${c} IS NOT NULL`).join(" AND ")} LIMIT 1)`;
        bare.run("PRAGMA ignore_check_constraints = ON");
        try {
          const attempt = (): void => {
            bare.run("BEGIN");
            try {
              bare.run(set);
              expect(bare.query("SELECT changes() AS n").get()).toEqual({ n: 1 });
              bare.run("COMMIT");
            } finally {
              if (bare.inTransaction) bare.run("ROLLBACK");
            }
          };
          expect(attempt).toThrow("FOREIGN KEY constraint failed");
        } finally {
          bare.run("PRAGMA ignore_check_constraints = OFF");
        }
      });
    }

    const unique = indexesOf(bare).filter((i) => i.unique);
    for (const index of unique) {
      const { table, columns, where, name } = index;
      // Implied by a narrower one: it is there for a foreign key to name.
      const implied = unique.some(
        (o) =>
          o !== index &&
          o.table === table &&
          o.where === null &&
          o.columns.length < columns.length &&
          o.columns.every((c) => columns.includes(c)),
      );
      if (implied) continue;
      test(`constraints: ${table} twice with the same ${columns.join(", ")}${where === null ? "" : ` where ${where}`} → refused`, () => {
        const others = new Set(unique.filter((o) => o.table === table).flatMap((o) => o.columns));
        const list = columnsOf(bare, table);
        const copied = list.map(({ name: column, type, rowid }) => {
          if (columns.includes(column)) return column;
          if (rowid) return "NULL";
          if (!others.has(column)) return column;
          if (column === "thread_id") return "'dead'";
          if (type === "INTEGER") return `${column} + 1000`;
          return `substr('x' || ${column}, 1, length(${column}))`;
        });
        const isSet = columns.map((c) => `${c} IS NOT NULL`);
        bare.run("PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF");
        try {
          expect(
            refusal(
              bare,
              `INSERT INTO ${table} (${list.map((c) => c.name).join(", ")}) SELECT ${copied.join(", ")} FROM ${table}
               WHERE ${[where ?? "1", ...isSet].map((w) => `(${w})`).join(" AND ")} LIMIT 1`,
            ),
            name,
          ).toEqual({
            code: expect.stringMatching(
              /^SQLITE_CONSTRAINT_(UNIQUE|PRIMARYKEY)$/,
            ) as unknown as string,
            what: columns.map((c) => `${table}.${c}`).join(", "),
          });
        } finally {
          bare.run("PRAGMA ignore_check_constraints = OFF; PRAGMA foreign_keys = ON");
        }
      });
    }
  });
}
