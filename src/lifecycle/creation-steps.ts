/** The eleven steps of a creation, each in the file of what it deals with. */
import type { CreateContext } from "./creation-deps.ts";
import { setupStep } from "./creation-setup.ts";
import { credentialStep, harnessConfigStep } from "./creation-steps-agent.ts";
import { bookmarkStep, headStep } from "./creation-steps-head.ts";
import { allocateStep, workspaceStep } from "./creation-steps-jj.ts";
import { readyStep } from "./creation-steps-ready.ts";
import { gateStep, launchStep, sessionStep } from "./creation-steps-session.ts";
import type { AnyStep } from "./saga.ts";

/** In the order of `CREATE_PLAN`; the runner checks that the two agree. */
export const CREATE_STEPS: readonly AnyStep<CreateContext>[] = [
  allocateStep,
  workspaceStep,
  headStep,
  bookmarkStep,
  credentialStep,
  harnessConfigStep,
  setupStep,
  sessionStep,
  launchStep,
  gateStep,
  readyStep,
] as AnyStep<CreateContext>[];
