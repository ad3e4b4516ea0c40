/** Writes `docs/configuration.md` from the configuration's schema. A test keeps them equal. */
import { writeFileSync } from "node:fs";
import { configurationPage } from "./configuration-page.ts";

writeFileSync(new URL("../docs/configuration.md", import.meta.url), configurationPage());
