/**
 * Plans that vary: a table of steps, some of them only with a flag, some once for each child. Still data: what varies
 * is in the operation's arguments, so that a restart gets the same plan, and every step can be enumerated.
 */
import type { LifecycleOpKind } from "../lifecycle.ts";
import type { SagaLifecycle, SagaPlan, SagaStepPlan } from "../saga.ts";

/** Starts of an ordinary effect: once, and twice more after a failure or a crash. */
export const EFFECT_ATTEMPTS = 3;
/** Starts of a step that mostly waits: a daemon may come and go while it does. */
export const WAIT_ATTEMPTS = 10;
/** A proof holds or does not; trying it again until it holds would prove nothing. */
export const PROOF_ATTEMPTS = 1;

export interface StepTemplate<F extends string> extends SagaStepPlan {
  /** Only with this flag. */
  when?: F;
  /** Only without it. */
  unless?: F;
  /** Once for each child, named `<name>:<child>`. Neighbouring ones alternate: all steps of one child, then the next. */
  each?: "child";
}

export interface PlanTemplate<F extends string> {
  kind: LifecycleOpKind;
  /** Tells templates of one kind apart; "" for the plain one. */
  name: string;
  lifecycle: SagaLifecycle;
  flags: readonly F[];
  steps: readonly StepTemplate<F>[];
}

/** What varies; plain JSON, part of an operation's arguments. */
export interface PlanShape<F extends string> {
  flags: readonly F[];
  /** Thread ids, in the order in which they are dealt with. */
  children: readonly string[];
}

export const PLAIN = { flags: [], children: [] } as const;

export function planOf<F extends string>(
  template: PlanTemplate<F>,
  shape: PlanShape<F> = PLAIN,
): SagaPlan {
  const wanted = template.steps.filter(
    (s) =>
      (s.when === undefined || shape.flags.includes(s.when)) &&
      (s.unless === undefined || !shape.flags.includes(s.unless)),
  );
  const firstChild = wanted.findIndex((s) => s.each === "child");
  const perChild = wanted.filter((s) => s.each === "child");
  const steps = wanted.flatMap((step, index) => {
    if (step.each !== "child") return [plain(step)];
    if (index !== firstChild) return [];
    return shape.children.flatMap((child) =>
      perChild.map((s) => ({ ...plain(s), name: `${s.name}:${child}` })),
    );
  });
  const words = [template.name, ...template.flags.filter((f) => shape.flags.includes(f))];
  if (shape.children.length > 0) words.push(`children ${shape.children.join(" ")}`);
  const variant = words.filter((w) => w !== "").join(", ");
  return { kind: template.kind, variant, lifecycle: template.lifecycle, steps };
}

function plain<F extends string>(template: StepTemplate<F>): SagaStepPlan {
  const { when: _when, unless: _unless, each: _each, ...step } = template;
  return step;
}

/** Plans of a template that between them have every step of it: without any flag or child, and with all it can have. */
export function variantsOf<F extends string>(template: PlanTemplate<F>): SagaPlan[] {
  const { flags, steps } = template;
  const children = steps.some((s) => s.each === "child") ? ["a", "b"] : [];
  const plain = planOf(template);
  const full = planOf(template, { flags, children });
  return full.variant === plain.variant ? [plain] : [plain, full];
}
