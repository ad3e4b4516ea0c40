import type { RunEvent } from "../../shared/contracts/event.ts";

/** What an audit is told of: the skill events, and calls that were blocked. */
export type AuditEvent = Extract<
  RunEvent,
  { type: "skill.announced" | "skill.activated" | "skill.reattached" | "skill.dismissed" | "tool.blocked" }
>;

/** Keeps a record outside of the run. Its failures never touch the run. */
export type Audit = (event: AuditEvent) => unknown;

const AUDITED: ReadonlySet<string> = new Set([
  "skill.announced",
  "skill.activated",
  "skill.reattached",
  "skill.dismissed",
  "tool.blocked",
] satisfies AuditEvent["type"][]);

/** @returns Passes audited events on; swallows whatever the audit throws or rejects with. */
export function auditor(audit: Audit | undefined): (event: RunEvent) => void {
  if (audit === undefined) return () => undefined;
  return (event) => {
    if (!AUDITED.has(event.type)) return;
    void (async () => audit(event as AuditEvent))().catch(() => undefined); // by the line above
  };
}
