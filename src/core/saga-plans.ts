/**
 * Every saga's steps in their normative order (threads chapter). The runner, the crash matrix and `kk repair` all read
 * these tables; the tables themselves are in `plans/`, by what a saga is about.
 */
import { CREATE_PLAN, INTERRUPT, REOPEN, RESTART } from "./plans/agent.ts";
import { CLOSE, CLOSE_WITHOUT_SESSION, DESTROY } from "./plans/close.ts";
import { CHECKPOINT, DETACH } from "./plans/detach.ts";
import { REPAIRS } from "./plans/repair.ts";
import { variantsOf } from "./plans/template.ts";
import type { SagaPlan } from "./saga.ts";

/** Every plan there is; of those that vary, enough variants to have every step of them. */
export const SAGA_PLANS: readonly SagaPlan[] = [
  CREATE_PLAN,
  ...variantsOf(CLOSE),
  ...variantsOf(CLOSE_WITHOUT_SESSION),
  ...variantsOf(REOPEN),
  ...variantsOf(DETACH),
  ...variantsOf(CHECKPOINT),
  ...variantsOf(DESTROY),
  ...variantsOf(RESTART),
  ...variantsOf(INTERRUPT),
  ...Object.values(REPAIRS).flatMap(variantsOf),
];
