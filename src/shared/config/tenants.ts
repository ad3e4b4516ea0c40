import { RunError } from "../errors.ts";

/** What an installation grants a tenant. Empty until tenants have limits of their own. */
export type TenantRecord = Readonly<Record<string, never>>;

/** Tenant records by id. `default` admits tenants without one. */
export type TenantRecords = Readonly<Record<string, TenantRecord>>;

/** Who may enqueue where nothing is configured: everybody. For programs that know their tenants themselves. */
export const OPEN_DOOR: TenantRecords = Object.freeze({ default: Object.freeze({}) });

/**
 * Finds the record that holds for a tenant.
 *
 * @throws {RunError} `unknown_tenant`.
 */
export function findTenant(tenants: TenantRecords, tenantId: string): TenantRecord {
  for (const id of [tenantId, "default"]) {
    const record = Object.hasOwn(tenants, id) ? tenants[id] : undefined;
    if (record !== undefined) return record;
  }
  throw new RunError("unknown_tenant", { message: `The tenant ${tenantId} is not known.`, details: { tenantId } });
}
