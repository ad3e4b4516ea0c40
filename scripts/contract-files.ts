import { runEventSchema } from "../src/shared/contracts/event.ts";
import { workspacePolicySchema } from "../src/shared/contracts/policy.ts";
import { receiptSchema } from "../src/shared/contracts/receipt.ts";
import { runRequestSchema } from "../src/shared/contracts/request.ts";
import { runResultSchema } from "../src/shared/contracts/result.ts";

/** The published schemas by the name of their file in `contracts/`, without `.schema.json`. */
export const CONTRACTS = {
  "run-request": runRequestSchema,
  "workspace-policy": workspacePolicySchema,
  "run-event": runEventSchema,
  receipt: receiptSchema,
  "run-result": runResultSchema,
} as const;

export type ContractName = keyof typeof CONTRACTS;

/** The text of `contracts/<name>.schema.json`. */
export function contractText(name: ContractName): string {
  return `${JSON.stringify(CONTRACTS[name], null, 2)}\n`;
}
