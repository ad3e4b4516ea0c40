/** Writes `contracts/*.schema.json` from the schemas in `src/shared/contracts`. A test keeps them equal. */
import { writeFileSync } from "node:fs";
import { CONTRACTS, type ContractName, contractText } from "./contract-files.ts";

for (const name of Object.keys(CONTRACTS) as ContractName[]) {
  const file = new URL(`../contracts/${name}.schema.json`, import.meta.url);
  writeFileSync(file, contractText(name));
}
