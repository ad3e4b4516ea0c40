import type { RunRequest } from "../../shared/contracts/request.ts";
import { renderSkillPrompt } from "../catalog/render-skill.ts";
import type { Skill } from "../catalog/catalog.ts";
import type { ModelMessage } from "../model/model.ts";
import type { Plan } from "./prepare.ts";
import { skillDirectory } from "./run-sandbox.ts";

const WITHOUT_QUERY = "Carry out the skill's instructions.";

/** The messages that a run starts with: the skill as system text, then the user's query. */
export function openingMessages(request: RunRequest, plan: Plan): readonly ModelMessage[] {
  const user: ModelMessage = { role: "user", text: request.query === "" ? WITHOUT_QUERY : request.query };
  if (plan.skill === undefined) return [user];
  return [{ role: "system", text: systemText(request, plan, plan.skill) }, user];
}

function systemText(request: RunRequest, plan: Plan, skill: Skill): string {
  const directory = `/workspace/${skillDirectory(skill.ref)}`;
  const prompt = renderSkillPrompt(skill, {
    arguments: request.arguments,
    skillDir: directory,
    sessionId: request.threadId ?? request.runId,
  });
  const readsFiles = [...plan.window.effective].some((id) => id.startsWith("workspace."));
  if (!readsFiles || skill.manifest.length === 0) return prompt;
  const files = skill.manifest.map((entry) => `- ${directory}/${entry.path} (${entry.size} bytes)`);
  return `${prompt}\n\nFiles of this skill in the workspace:\n${files.join("\n")}`;
}
